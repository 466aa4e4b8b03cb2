import { expect, test } from "vitest";

import type { EvalItem } from "../../api/evals";
import { addSpent, buildRows, countRepeats, judgeItem } from "./cells";

function item(caseId: string, variant: string, sample: number, passed: boolean | null, more: Partial<EvalItem> = {}): EvalItem {
  return { number: 0, case_id: caseId, variant, sample, status: "scored", scores: [{ name: "s", value: passed === null ? null : Number(passed), passed, error: passed === null ? "no input" : null }], ...more };
}

test("what says nothing about a variant is missing, and neither passed nor failed", () => {
  expect(judgeItem(item("a", "v", 0, true))).toBe("passed");
  expect(judgeItem(item("a", "v", 0, false))).toBe("failed");
  expect(judgeItem(item("a", "v", 0, true, { status: "cut" }))).toBe("missing");
  expect(judgeItem(item("a", "v", 0, true, { status: "infra_error" }))).toBe("missing");
  expect(judgeItem(item("a", "v", 0, true, { status: "diverged" }))).toBe("failed");
  expect(judgeItem(item("a", "v", 0, null))).toBe("partly");
  expect(judgeItem(item("a", "v", 0, true), "other")).toBe("partly");
});

test("a case is flaky within a variant and changed between two; missing samples make it neither", () => {
  const rows = buildRows([item("a", "old", 0, true), item("a", "old", 1, false), item("a", "new", 0, true), item("a", "new", 1, true), item("b", "old", 0, true), item("b", "new", 0, false, { status: "cut" })], ["old", "new"], 2);
  expect(rows.map((it) => [it.caseId, it.isFlaky, it.isChanged, it.hasMissing])).toEqual([["a", true, true, false], ["b", false, false, true]]);
  expect(rows[1]?.cells.map((it) => [it.looks, it.rate])).toEqual([[["passed", "open"], 1], [["missing", "open"], null]]);
  expect(countRepeats([], null)).toBe(1);
  expect(countRepeats([item("a", "v", 2, true)], undefined)).toBe(3);
});

test("amounts that are not known are not zero", () => {
  const usage = { prompt_tokens: 10, completion_tokens: 5 } as EvalItem["usage"];
  expect(addSpent([item("a", "v", 0, true)])).toEqual({ tokens: null, cost_usd: null });
  expect(addSpent([item("a", "v", 0, true, { usage }), item("a", "v", 1, true, { cost_usd: 0 })])).toEqual({ tokens: 15, cost_usd: 0 });
});
