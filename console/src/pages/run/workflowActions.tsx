/** What an operator can do about a workflow: reset it to a step, enter it again, cancel it. */
import { List, Stack, Text } from "@mantine/core";

import { api, need, type Schemas } from "../../api/client";
import { refreshKinds } from "../../api/queries";
import { workflows as texts } from "../../texts/workflows";
import { useConfirm } from "../../ui/confirm";
import { noteDone, noteError } from "../../ui/notices";
import { ShownText } from "../../ui/SafeText";

function ResetPlan({ plan }: { plan: Schemas["ResetReceipt"] }) {
  const list = (items: readonly string[]) => <List size="sm" mah={180} style={{ overflow: "auto" }} tabIndex={0}>{items.map((it) => <List.Item key={it}><ShownText text={it} /></List.Item>)}</List>;
  return (
    <Stack gap="xs">
      <Text size="sm">{texts.resetBody(plan.steps.length)}</Text>
      {plan.steps.length === 0 ? null : <Text size="sm" ff="monospace" mah={120} style={{ overflow: "auto", overflowWrap: "anywhere" }}>{plan.steps.join(", ")}</Text>}
      {plan.effects.length === 0 ? null : <><Text size="sm" fw={600}>{texts.resetEffects}</Text>{list(plan.effects)}</>}
    </Stack>
  );
}

export function useWorkflowActions({ run_id: runId }: { run_id: string }) {
  const confirm = useConfirm();
  const params = { path: { run_id: runId } };
  const attempt = async (act: () => Promise<string | null>) => {
    try {
      const done = await act();
      if (done === null) return;
      noteDone(done);
      await refreshKinds("run", "ticket", "audit");
    } catch (error) {
      noteError(error);
    }
  };
  return {
    /** Shows what a reset would take back, and does it if a person agrees. */
    reset: (step: string | null) => attempt(async () => {
      const plan = await need(api.POST("/v1/runs/{run_id}/reset", { params, body: { step, is_dry: true } }));
      if (!(await confirm({ title: texts.resetTitle(step), body: <ResetPlan plan={plan} />, isDangerous: plan.effects.length > 0 }))) return null;
      await need(api.POST("/v1/runs/{run_id}/reset", { params, body: { step, is_dry: false } }));
      return texts.resetDone;
    }),
    cancel: () => attempt(async () => {
      if (!(await confirm({ title: texts.cancelTitle, body: <Text size="sm">{texts.cancelBody}</Text>, confirm: texts.cancel, isDangerous: true }))) return null;
      await need(api.POST("/v1/runs/{run_id}/cancel", { params }));
      return texts.cancelled;
    }),
  };
}
