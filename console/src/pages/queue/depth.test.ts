import { describe, expect, it } from "vitest";

import { isOpen, spellStatus, sumDepth, type Delivery } from "./depth";

function makeDelivery(agent: string | null, createdAt: number, status = "Queued"): Delivery {
  return {
    agent_id: agent, attempt_count: 0, available_at: 0, cancel_cause: null, claimed_by: null, completed_at: null, created_at: createdAt, dedupe_key: null, dispatch_epoch: 0,
    dispatch_id: `${agent}-${createdAt}`, last_error: null, lease_until: null, max_attempts: 5, mode: "queue", priority: 128, run_id: "r", status, taken_by: null, tenant_id: null, thread_id: "t", updated_at: 0,
  };
}

describe("the depth of the queue", () => {
  it("counts by agent, the longest waiting first", () => {
    const queued = [makeDelivery("b", 20), makeDelivery("a", 30), makeDelivery("b", 10)];
    expect(sumDepth(queued, [makeDelivery(null, 5, "Claimed")], "none")).toEqual([
      { agent: "b", queued: 2, claimed: 0, oldest: 10 }, { agent: "a", queued: 1, claimed: 0, oldest: 30 }, { agent: "none", queued: 0, claimed: 1, oldest: null },
    ]);
  });

  it("knows which deliveries are not over", () => {
    expect(spellStatus("DeadLetter")).toBe("dead_letter");
    expect([isOpen(makeDelivery("a", 1)), isOpen(makeDelivery("a", 1, "Claimed")), isOpen(makeDelivery("a", 1, "DeadLetter"))]).toEqual([true, true, false]);
  });
});
