/** Cancels many runs: the server says first what would happen, a person agrees, and each run has its receipt. */
import { List, Stack, Text } from "@mantine/core";

import { api, need, type Schemas } from "../../api/client";
import { refreshKinds } from "../../api/queries";
import { runs as texts } from "../../texts/runs";
import type { useConfirm } from "../../ui/confirm";
import { noteDone, noteError } from "../../ui/notices";
import { planCancel } from "./cancelPlan";

type Run = Schemas["RunView"];

function runBatch(ids: string[], isDry: boolean) {
  return need(api.POST("/v1/batch", { body: { action: "cancel", ids, dry_run: isDry, decision: null, filter: null } }));
}

export async function cancelRuns(chosen: readonly Run[], confirm: ReturnType<typeof useConfirm>): Promise<boolean> {
  try {
    const { items } = await runBatch(chosen.map((it) => it.run_id), true);
    const plan = planCancel(chosen, items);
    const body = (
      <Stack gap="xs">
        <List size="sm">
          <List.Item>{texts.preview.planned(plan.planned.length)}</List.Item>
          {plan.ended === 0 ? null : <List.Item>{texts.preview.ended(plan.ended)}</List.Item>}
          {plan.refused === 0 ? null : <List.Item>{texts.preview.refused(plan.refused)}</List.Item>}
        </List>
        <Text size="sm" c="dimmed">{texts.cancelBody}</Text>
      </Stack>
    );
    if (plan.planned.length === 0) {
      await confirm({ title: texts.preview.nothing, body });
      return false;
    }
    if (!(await confirm({ title: texts.cancelTitle(plan.planned.length), body, confirm: texts.cancel, isDangerous: true }))) return false;
    const result = await runBatch(plan.planned, false);
    const refused = result.items.find((it) => it.status === "refused");
    if (refused !== undefined) noteError(new Error(refused.error ?? refused.code ?? refused.id));
    noteDone(texts.cancelled(result.items.filter((it) => it.status === "done").length));
    await refreshKinds("run", "ticket", "dispatch");
    return true;
  } catch (error) {
    noteError(error);
    return false;
  }
}
