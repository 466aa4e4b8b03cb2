/** What can be done about a run. What the caller or the run's state does not allow is disabled, with the reason. */
import { ActionIcon, Button, Menu, Tooltip } from "@mantine/core";
import { IconBraces, IconDatabasePlus, IconDots, IconFlask2, IconGitFork, IconMessage, IconPin, IconPinned, IconPlayerStop } from "@tabler/icons-react";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState, type ReactElement } from "react";

import { useMay, type Scope } from "../../api/caller";
import { api, need } from "../../api/client";
import { refreshKinds } from "../../api/queries";
import { datasets } from "../../texts/datasets";
import { demo } from "../../texts/demo";
import { lab } from "../../texts/lab";
import { run as texts } from "../../texts/run";
import { ui } from "../../texts/ui";
import { useConfirm } from "../../ui/confirm";
import { CaptureDialog } from "../../ui/evals/CaptureDialog";
import { noteDone, noteError } from "../../ui/notices";
import { JsonDrawer } from "../../ui/parts";
import type { Run } from "./queries";

/** Why an action is disabled, or null. */
function useReasons(run: Run) {
  const may = useMay();
  const fixed = run.kind === "demo" ? demo.only : null;
  const scope = (it: Scope) => (may(it) ? null : texts.needs(it));
  return {
    cancel: fixed ?? scope("invoke") ?? (run.status === "done" ? texts.ended : null),
    fork: scope("invoke"),
    repin: fixed ?? scope("operate") ?? (run.status === "waiting" || run.status === "created" ? null : texts.repinOnlyOpen),
    pin: scope("config"),
    capture: scope("eval"),
    lab: scope("config") ?? scope("eval"),
  };
}

function ActionItem({ icon, reason, label, onClick }: { icon: ReactElement; reason: string | null; label: string; onClick: () => void }) {
  return (
    <Tooltip label={reason} disabled={reason === null} position="left">
      <Menu.Item leftSection={icon} aria-disabled={reason !== null} c={reason === null ? undefined : "dimmed"} closeMenuOnClick={reason === null} onClick={reason === null ? onClick : undefined} title={reason ?? undefined}>
        {label}
      </Menu.Item>
    </Tooltip>
  );
}

export function RunActions({ run }: { run: Run }) {
  const confirm = useConfirm();
  const navigate = useNavigate();
  const reasons = useReasons(run);
  const [shown, setShown] = useState<Run | undefined>();
  const [isCapturing, setCapturing] = useState(false);
  const path = { run_id: run.run_id };

  const attempt = async (action: () => Promise<string>) => {
    try {
      noteDone(await action());
      await refreshKinds("run", "thread", "ticket");
    } catch (error) {
      noteError(error);
    }
  };
  const cancel = async () => {
    if (!(await confirm({ title: texts.cancelTitle, body: texts.cancelBody, confirm: texts.cancel, isDangerous: true }))) return;
    await attempt(async () => {
      await need(api.POST("/v1/runs/{run_id}/cancel", { params: { path } }));
      return texts.cancelled;
    });
  };
  const fork = () => attempt(async () => {
    const { thread, agent_id: agent } = await need(api.POST("/v1/runs/{run_id}/fork", { params: { path } }));
    await navigate({ to: "/chat/{-$threadId}", params: { threadId: thread.id }, search: { agent } });
    return texts.forked;
  });
  const repin = async () => {
    if (!(await confirm({ title: texts.repinTitle, body: texts.repinBody, confirm: texts.repin, isDangerous: true }))) return;
    await attempt(async () => texts.repinned((await need(api.POST("/v1/runs/{run_id}/repin", { params: { path }, body: { publication: "live" } }))).publication ?? null));
  };
  const pin = () => attempt(async () => {
    await need(api.POST("/v1/traces/{run_id}/pin", { params: { path } }));
    return texts.pinned;
  });

  return (
    <>
      <Button leftSection={<IconMessage size={14} />} renderRoot={(props) => <Link to="/chat/{-$threadId}" params={{ threadId: run.thread_id }} {...props} />}>{texts.openChat}</Button>
      <Tooltip label={reasons.cancel} disabled={reasons.cancel === null}>
        <Button leftSection={<IconPlayerStop size={14} />} data-disabled={reasons.cancel !== null || undefined} aria-disabled={reasons.cancel !== null} onClick={() => { if (reasons.cancel === null) void cancel(); }}>{texts.cancel}</Button>
      </Tooltip>
      <Tooltip label={reasons.capture} disabled={reasons.capture === null}>
        <Button leftSection={<IconDatabasePlus size={14} />} data-disabled={reasons.capture !== null || undefined} aria-disabled={reasons.capture !== null} onClick={() => { if (reasons.capture === null) setCapturing(true); }}>{datasets.capture.open}</Button>
      </Tooltip>
      <Menu position="bottom-end">
        <Menu.Target><ActionIcon variant="default" size={30} aria-label={texts.actions}><IconDots size={16} /></ActionIcon></Menu.Target>
        <Menu.Dropdown>
          <ActionItem icon={<IconGitFork size={14} />} label={texts.fork} reason={reasons.fork} onClick={() => void fork()} />
          <ActionItem icon={<IconFlask2 size={14} />} label={lab.openLab} reason={reasons.lab} onClick={() => void navigate({ to: "/lab", search: { run: run.run_id } })} />
          <ActionItem icon={<IconPin size={14} />} label={texts.repin} reason={reasons.repin} onClick={() => void repin()} />
          <ActionItem icon={<IconPinned size={14} />} label={texts.pin} reason={reasons.pin} onClick={() => void pin()} />
          <Menu.Divider />
          <Menu.Item leftSection={<IconBraces size={14} />} onClick={() => setShown(run)}>{ui.asJson}</Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <CaptureDialog runId={run.run_id} isOpen={isCapturing} onClose={() => setCapturing(false)} />
      <JsonDrawer title={run.run_id} value={shown} onClose={() => setShown(undefined)} />
    </>
  );
}
