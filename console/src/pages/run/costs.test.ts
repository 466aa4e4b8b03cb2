import { expect, test } from "vitest";

import { listCalls, sumByModel } from "./costs";

test("calls are summed by model, and a model without prices has no cost", () => {
  const calls = listCalls([
    { kind: "step", n: 1, children: [{ kind: "model", model: "a", tokens: [10, 2], cost_nanos: 5 }, { kind: "tool", tool: "x" }] },
    { kind: "wait" },
    { kind: "step", n: 2, children: [{ kind: "model", model: "a", tokens: [20, 4], cost_nanos: 7 }, { kind: "model", model: "b", tokens: [1, 1] }] },
  ]);
  expect(calls.map((it) => [it.key, it.step, it.model])).toEqual([["1-0", 1, "a"], ["2-0", 2, "a"], ["2-1", 2, "b"]]);
  expect(sumByModel(calls)).toEqual([{ model: "a", calls: 2, input: 30, output: 6, nanos: 12 }, { model: "b", calls: 1, input: 1, output: 1, nanos: null }]);
});
