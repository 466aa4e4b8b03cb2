import { expect, test } from "vitest";

import { listSpans } from "./spans";

test("calls begin when the answer of their step is whole", () => {
  const [one, two] = listSpans([{ n: 1, at: 1_000, ms: 40, model: "m", calls: [{ id: "a", tool: "look_up", ms: 5 }, { id: "b", tool: "refund", ms: 9 }] }, { n: 2, at: 1_060, ms: 10 }]);
  expect([one?.start, one?.ms, two?.start, two?.ms]).toEqual([0, 49, 60, 10]);
  expect(one?.children?.map((it) => [it.kind, it.start, it.ms])).toEqual([["model", 0, 40], ["tool", 40, 5], ["tool", 40, 9]]);
});

test("steps without times follow each other", () => {
  expect(listSpans([{ n: 1, ms: 5 }, { n: 2, ms: 7 }]).map((it) => it.start)).toEqual([0, 5]);
});
