import { describe, expect, it } from "vitest";

import type { MessageRecord } from "../../ui/MessageView";
import { foldConversation } from "./conversation";

function makeRecord(seq: number, runId: string | null): MessageRecord {
  return {
    seq, message_id: `m${seq}`, thread_id: "t", produced_by_run_id: runId, created_at: null, step_index: null, tool_call_id: null,
    message: { role: "user", id: null, metadata: null, sender: null, tool_call_id: null, tool_calls: null, visibility: "all" },
  };
}

describe("a conversation", () => {
  it("has a boundary where a run begins, whatever order the pages came in", () => {
    const records = [makeRecord(3, "b"), makeRecord(2, "a"), makeRecord(1, "a"), makeRecord(4, null)];
    expect(foldConversation(records).map((it) => it.key)).toEqual(["run-a-1", "m1", "m2", "run-b-3", "m3", "m4"]);
  });
});
