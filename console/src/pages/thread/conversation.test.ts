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

  it("says where it was compacted, which summary counts, and what no longer fits", () => {
    const mark = (seq: number) => ({ seq, message_id: `m${seq}`, summary: "s", pre_tokens: 9, post_tokens: 1, at: seq });
    const records = [1, 2, 3, 4, 5].map((it) => makeRecord(it, null));
    const items = foldConversation(records, { marks: [mark(1), mark(3)], cut_seq: 5 });
    expect(items.map((it) => it.key)).toEqual(["m1", "mark-1-1", "m2", "m3", "mark-3-3", "m4", "cut-5", "m5"]);
    expect(items.flatMap((it) => (it.kind === "mark" ? [it.isLatest] : []))).toEqual([false, true]);
    expect(foldConversation(records, { marks: [mark(3)], cut_seq: 4 }).some((it) => it.kind === "cut")).toBe(false);
  });
});
