/** One step of a workflow's journal: what it did, what it gave, and the way back to it. */
import { CloseButton, Group, Stack, Text, Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { isDemoThread } from "../../api/demoThreads";
import { demo } from "../../texts/demo";
import { workflows as texts } from "../../texts/workflows";
import { ui } from "../../texts/ui";
import { GatedButton } from "../../ui/GatedButton";
import { ShortId, Status, Time, Until } from "../../ui/parts";
import { SafeJson, SafeText, ShownText } from "../../ui/SafeText";
import type { Step } from "./journal";
import classes from "./run.module.css";
import type { WorkflowView } from "./WorkflowTab";
import { useWorkflowActions } from "./workflowActions";

export function WorkflowStep({ view, step, onClose }: { view: WorkflowView; step: Step; onClose: () => void }) {
  const { reset } = useWorkflowActions(view);
  const { facts } = texts;
  const shown: [string, ReactNode][] = [
    [facts.status, <Status key="s" value={step.status} />],
    [facts.kind, texts.kinds[step.kind] ?? step.kind],
    [facts.name, <ShownText key="n" text={step.name} />],
    ...(step.attempt > 1 ? [[facts.attempt, step.attempt] satisfies [string, ReactNode]] : []),
    [facts.effect, texts.effects[step.effect] ?? step.effect],
    ...(step.until === null ? [] : [[facts.until, <span key="u"><Until at={step.until} /> (<Time at={step.until} />)</span>] satisfies [string, ReactNode]]),
    ...(step.event === null ? [] : [[facts.event, <ShownText key="e" text={step.event} />] satisfies [string, ReactNode]]),
    ...(step.winner === null ? [] : [[facts.winner, texts.branch(step.winner)] satisfies [string, ReactNode]]),
    ...(step.child_run_id === null ? [] : [[facts.child, <Link key="c" to="/runs/$runId" params={{ runId: step.child_run_id }}><ShortId id={step.child_run_id} /></Link>] satisfies [string, ReactNode]]),
  ];
  const isWaiting = view.status === "waiting";
  return (
    <section className={classes.panel} aria-label={texts.step(step.path)}>
      <Group justify="space-between" mb="xs"><Title order={2}>{texts.step(step.path)}</Title><CloseButton aria-label={ui.close} onClick={onClose} /></Group>
      <Stack gap="sm">
        <dl className={classes.facts}>{shown.map(([name, value]) => <div key={name} className={classes.fact}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
        {step.ticket_id !== null && step.kind === "approve" ? <Link to="/approvals" search={{ ticket: step.ticket_id }}>{texts.decide}</Link> : null}
        {step.error === null ? null : <div><Title order={3}>{texts.error}</Title><SafeText text={step.error} label={texts.error} maxHeight={260} /></div>}
        {step.status === "done" ? <div><Title order={3}>{texts.result}</Title>{typeof step.result === "string" ? <SafeText text={step.result} label={texts.result} maxHeight={320} /> : <SafeJson value={step.result} label={texts.result} maxHeight={320} />}</div> : step.error === null ? <Text size="sm" c="dimmed">{texts.noResult}</Text> : null}
        <Group gap="xs"><GatedButton scope="operate" reason={isDemoThread(view.thread_id) ? demo.only : view.status === "done" ? texts.ended : isWaiting ? undefined : texts.onlyWaiting} onClick={() => void reset(step.path)}>{texts.reset}</GatedButton></Group>
      </Stack>
    </section>
  );
}
