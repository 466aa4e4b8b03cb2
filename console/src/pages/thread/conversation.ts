/** The conversation of a thread with the places where runs begin and where it was compacted. Pure. */
import type { Schemas } from "../../api/client";
import type { MessageRecord } from "../../ui/MessageView";

export type Context = Pick<Schemas["ThreadContext"], "marks" | "cut_seq">;
export type Mark = Schemas["ShownMark"];
export type ConversationItem =
  | { kind: "run"; key: string; runId: string }
  | { kind: "message"; key: string; record: MessageRecord }
  | { kind: "mark"; key: string; mark: Mark; isLatest: boolean }
  | { kind: "cut"; key: string; seq: number };

const WHOLE: Context = { marks: [], cut_seq: null };

/** Messages in the order of the thread; where the run changes, a boundary comes first; a mark follows the last message that its summary replaces. */
export function foldConversation(records: readonly MessageRecord[], context: Context = WHOLE): ConversationItem[] {
  const items: ConversationItem[] = [];
  const latest = context.marks.at(-1);
  // A cut before the end of the latest summary leaves nothing out that the summary does not.
  const cut = context.cut_seq !== null && context.cut_seq > (latest?.seq ?? 0) + 1 ? context.cut_seq : null;
  let runId: string | null = null;
  for (const record of [...records].sort((a, b) => a.seq - b.seq)) {
    const from = record.produced_by_run_id ?? null;
    if (record.seq === cut) items.push({ kind: "cut", key: `cut-${record.seq}`, seq: record.seq });
    if (from !== null && from !== runId) items.push({ kind: "run", key: `run-${from}-${record.seq}`, runId: from });
    if (from !== null) runId = from;
    items.push({ kind: "message", key: record.message_id, record });
    for (const mark of context.marks) {
      if (mark.seq === record.seq) items.push({ kind: "mark", key: `mark-${mark.seq}-${mark.at}`, mark, isLatest: mark === latest });
    }
  }
  return items;
}
