/** What operators do with deliveries and outbox commands; each asks once. */
import { Text } from "@mantine/core";

import { api, need, type Schemas } from "../../api/client";
import { refreshKinds } from "../../api/queries";
import { queue as texts } from "../../texts/queue";
import { useConfirm } from "../../ui/confirm";
import { noteDone, noteError } from "../../ui/notices";

async function runBatch(action: "replay" | "retry", ids: readonly string[]): Promise<{ done: number; refused: readonly Schemas["BatchReceipt"][] }> {
  const body: Schemas["RunBatch"] = { action, ids: [...ids], filter: null, decision: null, dry_run: false };
  const { items } = await need(api.POST("/v1/batch", { body }));
  const refused = items.filter((it) => it.status === "refused");
  return { done: items.length - refused.length, refused };
}

async function cancelDeliveries(ids: readonly string[]): Promise<{ done: number; skipped: number }> {
  let done = 0;
  for (const id of ids) {
    const { status } = await need(api.POST("/v1/dispatches/{dispatch_id}/cancel", { params: { path: { dispatch_id: id } } }));
    if (status !== "skipped") done += 1;
  }
  return { done, skipped: ids.length - done };
}

type Act = (ids: readonly string[], clear?: () => void) => Promise<void>;

export function useQueueActions(): { replay: Act; cancel: Act; retry: Act } {
  const confirm = useConfirm();
  const act = async (question: { title: string; body: string; confirm: string; isDangerous?: boolean }, perform: () => Promise<string>, clear?: () => void) => {
    if (!(await confirm({ ...question, body: <Text size="sm">{question.body}</Text> }))) return;
    try {
      noteDone(await perform());
      clear?.();
    } catch (error) {
      noteError(error);
    }
    await refreshKinds("dispatch", "run", "thread");
  };
  const batch = (action: "replay" | "retry", say: (done: number, refused: number) => string) => async (ids: readonly string[]) => {
    const { done, refused } = await runBatch(action, ids);
    if (refused[0] !== undefined) noteError(new Error(refused[0].error ?? refused[0].status));
    return say(done, refused.length);
  };
  return {
    replay: (ids, clear) => act({ title: texts.replayTitle(ids.length), body: texts.replayBody, confirm: texts.replay }, () => batch("replay", texts.replayed)(ids), clear),
    retry: (ids, clear) => act({ title: texts.retryTitle(ids.length), body: texts.retryBody, confirm: texts.retry }, () => batch("retry", texts.retried)(ids), clear),
    cancel: (ids, clear) => act({ title: texts.cancelTitle(ids.length), body: texts.cancelBody, confirm: texts.cancel, isDangerous: true }, async () => {
      const { done, skipped } = await cancelDeliveries(ids);
      return texts.cancelled(done, skipped);
    }, clear),
  };
}

