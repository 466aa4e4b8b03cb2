import { expect, test } from "vitest";

import { makeForm, makeVariant, readSpec, writeSpec } from "./spec";

test("what is not filled in is left to the server", () => {
  expect(writeSpec(makeForm(null, null))).toBeNull();
  expect(writeSpec(makeForm("refunds", null))).toEqual({ dataset_id: "refunds", mode: "live", variants: [{ name: "live" }] });
});

test("a draft is compared with what is live, and judged last", () => {
  expect(writeSpec(makeForm("refunds", "d1"))?.variants).toEqual([{ name: "live" }, { name: "draft", draft_id: "d1" }]);
});

test("an eval that is run again says the same", () => {
  const spec = { dataset_id: "refunds", mode: "live" as const, repeats: 3, variants: [{ name: "a", publication: 4 }, { name: "b", instructions: "Look up first.", changes: { max_rounds: 2 } }], budget: { cost_usd: 2, time_ms: 90_000 }, tags: ["x"], seed: 7 };
  expect(writeSpec(readSpec(spec as never))).toEqual(spec);
  expect(writeSpec({ ...makeForm("refunds", null), variants: [{ ...makeVariant("v"), source: "publication:2" }], tokens: "0" })).toMatchObject({ variants: [{ name: "v", publication: 2 }], budget: { tokens: 0 } });
});
