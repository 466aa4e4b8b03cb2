import type { Schemas } from "../../api/client";

type Run = Schemas["RunView"];
type Receipt = Schemas["BatchReceipt"];

/** What a batch will do: the runs that are asked to stop, those that have ended, those that are refused. */
export function planCancel(runs: readonly Pick<Run, "run_id" | "status">[], receipts: readonly Pick<Receipt, "id" | "status">[]) {
  const ended = new Set(runs.filter((it) => it.status === "done").map((it) => it.run_id));
  const planned = receipts.filter((it) => it.status === "planned" && !ended.has(it.id)).map((it) => it.id);
  return { planned, ended: ended.size, refused: receipts.filter((it) => it.status === "refused").length };
}
