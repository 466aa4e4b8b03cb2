/** What a span holds: its figures, arguments, result and events, fetched when it is opened. */
import { ActionIcon, Button, Group, Stack, Text, Title } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState, type KeyboardEvent, type ReactNode } from "react";

import { useMay } from "../../api/caller";
import { datasets } from "../../texts/datasets";
import { lab } from "../../texts/lab";
import { run as texts } from "../../texts/run";
import { CaptureDialog } from "../../ui/evals/CaptureDialog";
import { formatCost, formatDuration, formatOffset, formatTokens } from "../../ui/format";
import { CopyableId, JsonText } from "../../ui/parts";
import { Failure, Loading } from "../../ui/states";
import type { Logged } from "./eventRows";
import { eventsQuery } from "./queries";
import classes from "./run.module.css";
import { nameSpan } from "./spanText";
import type { SpanRow } from "./waterfall";

/** The frame of the panel beside a list. It takes the focus when it opens, and Escape closes it. */
export function SidePanel({ title, onClose, children }: { title: string; onClose: () => void; children: ReactNode }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: true }), [title]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    onClose();
  };
  return (
    <section className={classes.panel} aria-label={title} tabIndex={0} onKeyDown={onKeyDown}>
      <Group justify="space-between" wrap="nowrap" mb="xs" align="flex-start">
        <Title order={2} ref={heading} tabIndex={-1} style={{ overflowWrap: "anywhere", outline: "none" }}>{title}</Title>
        <ActionIcon aria-label={texts.span.close} onClick={onClose}><IconX size={16} /></ActionIcon>
      </Group>
      {children}
    </section>
  );
}

function Figures({ row }: { row: SpanRow }) {
  const { span } = row;
  const figures: [string, ReactNode][] = [
    [texts.span.start, formatOffset(row.start)],
    [texts.span.took, row.isOpen ? texts.waterfall.goesOn : formatDuration(row.end - row.start)],
  ];
  if (span.first_token_ms != null) figures.push([texts.span.first, formatDuration(span.first_token_ms)]);
  if (span.outcome != null) figures.push([texts.span.outcome, span.outcome]);
  if (span.effect != null && span.effect !== "none") figures.push([texts.span.effect, span.effect]);
  if ((span.attempts ?? 1) > 1) figures.push([texts.span.attempts, span.attempts]);
  if (span.tokens != null) figures.push([texts.span.tokens, texts.tokensInOut(formatTokens(span.tokens[0] ?? 0), formatTokens(span.tokens[1] ?? 0))]);
  if (span.cost_nanos != null) figures.push([texts.span.cost, formatCost(span.cost_nanos)]);
  if (span.seq != null) figures.push([texts.span.seq, span.seq]);
  return <dl className={classes.facts}>{figures.map(([name, value]) => <div key={name} className={classes.fact}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

/** The events that belong to a span. */
export function selectEvents(row: SpanRow, events: readonly Logged[]): readonly Logged[] {
  const { span } = row;
  if (span.kind === "tool") return events.filter(({ event }) => event.id === span.call_id || event.target_id === span.call_id);
  if (span.kind === "model") {
    const end = span.seq ?? Infinity;
    return events.filter(({ seq, event }) => seq <= end && event.event_type !== "tool_call_done" && event.event_type !== "tool_call_resumed" && event.event_type !== "run_start");
  }
  return events;
}

function Part({ title, value }: { title: string; value: unknown }) {
  return (
    <div>
      <Text size="xs" c="dimmed" mb={2}>{title}</Text>
      {typeof value === "string" ? <p className={classes.text}>{value.slice(0, 50_000)}</p> : <JsonText value={value} maxHeight={280} />}
    </div>
  );
}

function Contents({ row, events }: { row: SpanRow; events: readonly Logged[] }) {
  const own = selectEvents(row, events);
  const ofType = (type: string) => own.find((it) => it.event.event_type === type)?.event;
  const join = (type: string) => own.filter((it) => it.event.event_type === type).map((it) => String(it.event.delta ?? "")).join("");
  const done = ofType("tool_call_done") ?? ofType("tool_call_resumed");
  const [text, reasoning] = [join("text_delta"), join("reasoning_delta")];
  const ready = ofType("tool_call_ready");
  return (
    <Stack gap="sm">
      {row.span.kind === "tool" && ready !== undefined ? <Part title={texts.span.arguments} value={ready.arguments ?? null} /> : null}
      {row.span.kind === "tool" && done !== undefined ? <Part title={texts.span.result} value={done.result ?? null} /> : null}
      {reasoning === "" ? null : <Part title={texts.span.reasoning} value={reasoning} />}
      {text === "" ? null : <Part title={texts.span.text} value={text} />}
      {own.length === 0 ? <Text size="sm" c="dimmed">{texts.span.none}</Text> : <Part title={`${texts.span.events} (${own.length})`} value={own} />}
    </Stack>
  );
}

/** What can be tried with a step: the run from there on in the lab, and the run as a case that names the step. */
function StepActions({ runId, step }: { runId: string; step: number }) {
  const may = useMay();
  const [isCapturing, setCapturing] = useState(false);
  if (!may("eval") || !may("config")) return null;
  return (
    <Group gap="xs" mb="sm">
      <Button renderRoot={(props) => <Link to="/lab" search={{ run: runId, step: String(step) }} {...props} />}>{lab.openLab}</Button>
      <Button onClick={() => setCapturing(true)}>{datasets.capture.open}</Button>
      <CaptureDialog runId={runId} step={step} isOpen={isCapturing} onClose={() => setCapturing(false)} />
    </Group>
  );
}

export function SpanPanel({ runId, row, onClose }: { runId: string; row: SpanRow; onClose: () => void }) {
  const { span } = row;
  // A call that was decided ends a long time after its arguments were logged; those are in its step.
  const upTo = Math.max(span.seq ?? 0, row.after) + (span.kind === "step" || span.seq != null ? 0 : 200);
  const { data, error, refetch } = useQuery(eventsQuery(runId, row.after, upTo));
  return (
    <SidePanel title={nameSpan(span)} onClose={onClose}>
      <Figures row={row} />
      <Group gap="sm" mb="sm">
        {span.call_id == null ? null : <CopyableId id={span.call_id} chars={24} />}
        {span.child_run_id == null ? null : <Link to="/runs/$runId" params={{ runId: span.child_run_id }}>{texts.span.childRun}</Link>}
        {span.kind === "wait" || row.step === 0 ? null : <Link to="/runs/$runId" params={{ runId }} search={{ tab: "requests", step: String(row.step) }}>{texts.span.request}</Link>}
        {(span.tickets ?? []).length > 0 ? <Link to="/approvals">{texts.span.tickets}</Link> : null}
      </Group>
      {span.kind === "step" && row.childOf === null ? <StepActions runId={runId} step={row.step} /> : null}
      {span.is_estimated === true ? <Text size="xs" c="dimmed" mb="xs">{texts.waterfall.estimated}</Text> : null}
      {error !== null ? <Failure error={error} onRetry={() => void refetch()} /> : data === undefined ? <Loading rows={3} /> : <Contents row={row} events={data as unknown as Logged[]} />}
    </SidePanel>
  );
}
