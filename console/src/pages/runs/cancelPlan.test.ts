import { expect, test } from "vitest";

import { planCancel } from "./cancelPlan";

test("a run that has ended is not asked to stop", () => {
  const runs = [{ run_id: "a", status: "running" }, { run_id: "b", status: "done" }, { run_id: "c", status: "waiting" }] as const;
  const receipts = [{ id: "a", status: "planned" }, { id: "b", status: "planned" }, { id: "c", status: "refused" }];
  expect(planCancel(runs, receipts)).toEqual({ planned: ["a"], ended: 1, refused: 1 });
});
