/** The journal of a workflow's run as a picture: its steps, the branches as lanes, what it waits for, and the ways out when its code has changed. */
import { Alert, Button, Group, Stack, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import type { Schemas } from "../../api/client";
import { writeExact } from "../../api/exactJson";
import { workflows as texts } from "../../texts/workflows";
import { GatedButton } from "../../ui/GatedButton";
import { Figure, Figures } from "../../ui/Panel";
import { Status, Time, Until } from "../../ui/parts";
import { SafeJson, SafeText, ShownText } from "../../ui/SafeText";
import { Empty, Failure, Loading } from "../../ui/states";
import { useVirtualRows } from "../../ui/useVirtualRows";
import { drawJournal, statusOf, type Branch, type Node } from "./journal";
import type { TabProps } from "./RunPage";
import classes from "./workflow.module.css";
import { useWorkflowActions } from "./workflowActions";
import { workflowQuery } from "./queries";
import { WorkflowEvents } from "./WorkflowEvents";
import { WorkflowStep } from "./WorkflowStep";
import runClasses from "./run.module.css";

export type WorkflowView = Schemas["WorkflowView"];
const LANES = 12;
const NOTE_CHARS = 80;
const ROW_PX = 48;
const nodeKey = (node: Node) => node.path;

type Choose = { chosen: string | undefined; onChoose: (path: string) => void };

/** What a step has to say besides its name. */
function Note({ node }: { node: Node }) {
  const { step } = node;
  if (step === null) return null;
  if (step.status === "waiting" && step.event !== null && step.event !== step.name) return <span className={classes.note}>{texts.forEvent(step.event)}</span>;
  if (step.status === "waiting" && step.until !== null) return <span className={classes.note}><Until at={step.until} /></span>;
  if (step.error !== null) return <span className={classes.note}><ShownText text={step.error.slice(0, NOTE_CHARS)} /></span>;
  if (step.attempt > 1) return <span className={classes.note}>{texts.attempt(step.attempt)}</span>;
  if (step.result == null || node.branches.length > 0) return null;
  const text = typeof step.result === "string" ? step.result : (writeExact(step.result) ?? "");
  return <span className={classes.note}><ShownText text={text.slice(0, NOTE_CHARS)} /></span>;
}

function NodeView({ node, chosen, onChoose }: Choose & { node: Node }) {
  const kind = node.step?.kind ?? "branches";
  const status = statusOf(node);
  const spoken = texts.kinds[kind] ?? kind;
  const name = node.step?.name ?? "";
  return (
    <>
      <button type="button" className={classes.step} data-status={status} data-chosen={chosen === node.path || undefined} aria-pressed={chosen === node.path} aria-label={texts.stepLabel(node.path, spoken, name === kind ? "" : name, status)} onClick={() => onChoose(node.path)}>
        <span className={classes.path}>{node.path}</span>
        <Status value={status} label="" />
        <span className={classes.kind}>{spoken}</span>
        {name === "" || name === kind ? null : <span className={classes.name}><ShownText text={name} /></span>}
        <Note node={node} />
      </button>
      {node.branches.length === 0 ? null : <Lanes node={node} chosen={chosen} onChoose={onChoose} />}
    </>
  );
}

/** Branches side by side; of very many the first ones, until a person asks for all. */
function Lanes({ node, chosen, onChoose }: Choose & { node: Node }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? node.branches : node.branches.slice(0, LANES);
  return (
    <>
      <div className={classes.lanes} role="group" aria-label={texts.stepLabel(node.path, texts.kinds.branches ?? "", "", statusOf(node))}>
        {shown.map((it) => <Lane key={it.index} branch={it} isWinner={node.step?.winner === it.index} chosen={chosen} onChoose={onChoose} />)}
      </div>
      {shown.length === node.branches.length ? null : <Button mt="xs" ml={32} onClick={() => setWhole(true)}>{texts.lanes(shown.length, node.branches.length)}</Button>}
    </>
  );
}

function Lane({ branch, isWinner, chosen, onChoose }: Choose & { branch: Branch; isWinner: boolean }) {
  return (
    <div className={classes.lane} role="group" aria-label={texts.branch(branch.index)}>
      <div className={classes.laneName}>{texts.branch(branch.index)}{isWinner ? <Text span size="xs" fw={600} c="light-dark(var(--mantine-color-teal-9), var(--mantine-color-teal-3))">{texts.winner}</Text> : null}</div>
      {branch.nodes.map((it, index) => <div key={it.path} className={`${classes.node} ${index === 0 ? classes.first : ""}`}><NodeView node={it} chosen={chosen} onChoose={onChoose} /></div>)}
    </div>
  );
}

/** The steps from top to bottom; only those in view are drawn. */
function Picture({ nodes, chosen, onChoose }: Choose & { nodes: readonly Node[] }) {
  const { scroller, virtual, current } = useVirtualRows({ rows: nodes, rowKey: nodeKey, rowPx: ROW_PX, overscan: 8, onOpen: (it) => onChoose(it.path) });
  const items = virtual.getVirtualItems();
  return (
    <div ref={scroller} className={classes.picture} tabIndex={0} role="region" aria-label={texts.journal}>
      <div style={{ height: virtual.getTotalSize(), position: "relative", minWidth: "100%", width: "max-content" }}>
        <div style={{ transform: `translateY(${items[0]?.start ?? 0}px)` }}>
          {items.map((item) => {
            const node = nodes[item.index];
            if (node === undefined) return null;
            return <div key={node.path} data-index={item.index} ref={virtual.measureElement} className={classes.row} data-current={item.index === current || undefined}><div className={`${classes.node} ${item.index === 0 ? classes.first : ""}`}><NodeView node={node} chosen={chosen} onChoose={onChoose} /></div></div>;
          })}
        </div>
      </div>
    </div>
  );
}

/** What a workflow whose code has changed waits for: a person who chooses a way out. */
function Diverged({ view }: { view: WorkflowView }) {
  const { reset, cancel } = useWorkflowActions(view);
  const { diverged } = view;
  if (diverged === null) return null;
  return (
    <Alert color="red" icon={<IconAlertTriangle size={18} />} title={texts.diverged} role="alert">
      <Stack gap="xs">
        <Text size="sm">{texts.divergedBody(diverged.step)}</Text>
        <dl className={classes.ways}>
          <dt>{texts.recorded}</dt><dd><ShownText text={diverged.recorded} /></dd>
          <dt>{texts.found}</dt><dd><ShownText text={diverged.found} /></dd>
        </dl>
        <Text size="sm">{texts.waysOut}</Text>
        <Group gap="xs">
          <GatedButton scope="operate" onClick={() => void reset(null)}>{texts.resetAgain}</GatedButton>
          <GatedButton scope="operate" onClick={() => void reset(diverged.step)}>{texts.resetTo(diverged.step)}</GatedButton>
          <GatedButton scope="invoke" color="red" variant="outline" onClick={() => void cancel()}>{texts.cancel}</GatedButton>
        </Group>
      </Stack>
    </Alert>
  );
}

function Facts({ view, count }: { view: WorkflowView; count: number }) {
  return (
    <Figures>
      <Figure name={texts.steps}>{count}</Figure>
      <Figure name={texts.sleeping}>{view.sleeping_until === null ? "–" : <><Until at={view.sleeping_until} /> <Text span size="xs" c="dimmed"><Time at={view.sleeping_until} /></Text></>}</Figure>
      <Figure name={texts.events}>{view.waiting_events.length === 0 ? "–" : <ShownText text={view.waiting_events.join(", ")} />}</Figure>
      <Figure name={texts.resets}>{view.resets}</Figure>
    </Figures>
  );
}

export function WorkflowTab({ run, search, onSearch }: TabProps) {
  const { data: view, error, refetch } = useQuery(workflowQuery(run.run_id));
  const nodes = useMemo(() => drawJournal(view?.steps ?? []), [view?.steps]);
  const chosen = view?.steps.find((it) => it.path === search.span);
  if (error !== null) return <Failure error={error} onRetry={() => void refetch()} />;
  if (view === undefined) return <Loading />;
  const choose = (path: string) => onSearch({ span: path === search.span ? undefined : path });
  return (
    <Stack gap="sm">
      <Diverged view={view} />
      <Facts view={view} count={view.steps.length} />
      {view.value == null ? null : (
        <div><Text size="xs" c="dimmed">{texts.value}</Text>{typeof view.value === "string" ? <SafeText text={view.value} label={texts.value} maxHeight={120} /> : <SafeJson value={view.value} label={texts.value} maxHeight={160} />}</div>
      )}
      <WorkflowEvents view={view} />
      {nodes.length === 0 ? <Empty title={texts.noSteps}>{texts.noStepsHelp}</Empty> : (
        <div className={runClasses.splitIn}>
          <div className={runClasses.split} data-open={chosen !== undefined || undefined}>
            <Picture nodes={nodes} chosen={search.span} onChoose={choose} />
            {chosen === undefined ? null : <WorkflowStep view={view} step={chosen} onClose={() => onSearch({ span: undefined })} />}
          </div>
        </div>
      )}
    </Stack>
  );
}
