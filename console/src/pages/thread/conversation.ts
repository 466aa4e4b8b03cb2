/** The conversation of a thread with the places where runs begin. Pure. */
import type { MessageRecord } from "../../ui/MessageView";

export type ConversationItem = { kind: "run"; key: string; runId: string } | { kind: "message"; key: string; record: MessageRecord };

/** Messages in the order of the thread; where the run changes, a boundary comes first. */
export function foldConversation(records: readonly MessageRecord[]): ConversationItem[] {
  const items: ConversationItem[] = [];
  let runId: string | null = null;
  for (const record of [...records].sort((a, b) => a.seq - b.seq)) {
    const from = record.produced_by_run_id ?? null;
    if (from !== null && from !== runId) items.push({ kind: "run", key: `run-${from}-${record.seq}`, runId: from });
    if (from !== null) runId = from;
    items.push({ kind: "message", key: record.message_id, record });
  }
  return items;
}
