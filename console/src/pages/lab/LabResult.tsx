/** What came of a replay: where it parts from the recording, two aligned waterfalls, and the steps that differ. */
import { Alert, List, Stack, Text } from "@mantine/core";
import { useMemo } from "react";

import { lab as texts } from "../../texts/lab";
import classes from "../../ui/evals/evals.module.css";
import { RunDiffView } from "../../ui/evals/RunDiffView";
import { ValueDiff } from "../../ui/FieldDiff";
import { Panel } from "../../ui/Panel";
import { ShownText } from "../../ui/SafeText";
import { Tag } from "../../ui/Tag";
import { buildRows, type SpanRow } from "../run/waterfall";
import { WaterfallChart } from "../run/WaterfallChart";
import type { Divergence, Recording, Replayed } from "./replaying";
import { listSpans } from "./spans";

const NONE: readonly string[] = [];
const doNothing = () => undefined;

/** The rows of a recording; the step where it parts from the other is a problem that is looked for. */
function useRows(recording: Recording, partsAt: number | undefined): SpanRow[] {
  return useMemo(() => {
    const rows = buildRows(listSpans(recording.steps ?? []), { until: 0 });
    return rows.map((it) => ({ ...it, isProblem: it.step === partsAt && it.span.kind !== "model" }));
  }, [recording, partsAt]);
}

function Chart({ recording, label, partsAt, end }: { recording: Recording; label: string; partsAt: number | undefined; end: number }) {
  const rows = useRows(recording, partsAt);
  return (
    <div className={classes.side}>
      <Text size="sm" fw={550} mb={4}>{label}</Text>
      {rows.length === 0 ? <Text size="sm" c="dimmed">{texts.noSteps}</Text> : <WaterfallChart label={label} rows={rows} isLive={false} end={end} zoom={1} step={undefined} chosen={undefined} shownChildren={NONE} onOpen={doNothing} onToggleChild={doNothing} />}
    </div>
  );
}

function endOf(recording: Recording): number {
  return listSpans(recording.steps ?? []).reduce((most, it) => Math.max(most, (it.start ?? 0) + (it.ms ?? 0)), 0);
}

function DivergenceView({ divergence, isFirst }: { divergence: Divergence; isFirst: boolean }) {
  return (
    <section className={classes.step} data-first={isFirst || undefined} aria-label={`${divergence.step} ${divergence.kind} ${divergence.path ?? ""}`}>
      <Text size="sm" component="div"><Tag color="red">{texts.kinds[divergence.kind] ?? divergence.kind}</Tag> <Text span size="sm" ff="monospace">{divergence.step} {divergence.path}</Text></Text>
      <ValueDiff before={divergence.recorded ?? undefined} after={divergence.replayed ?? undefined} />
    </section>
  );
}

export function LabResult({ recording, result }: { recording: Recording; result: Replayed | null }) {
  if (result === null) return <Panel title={texts.theRun}><Chart recording={recording} label={texts.recorded} partsAt={undefined} end={endOf(recording)} /></Panel>;
  const { replayed } = result;
  const first = result.divergences[0];
  const end = Math.max(endOf(recording), endOf(replayed));
  const text = replayed.run.final_output ?? "";
  return (
    <>
      <Alert color={result.isSame ? "teal" : "yellow"} title={texts.result} role="status">
        <Text size="sm">{first === undefined || result.isSame ? texts.same : texts.diverged(first.step, texts.kinds[first.kind] ?? first.kind)}</Text>
        <Text size="sm">{result.ended === null ? texts.waits : texts.ended(result.ended.replaceAll("_", " "))}</Text>
        {text === "" ? null : <Text size="sm" mt={4} style={{ overflowWrap: "anywhere" }}><ShownText text={text.slice(0, 2_000)} /></Text>}
        {result.incomplete.length === 0 ? null : <><Text size="sm">{texts.incomplete}</Text><List size="sm">{result.incomplete.map((it) => <List.Item key={it}>{it}</List.Item>)}</List></>}
      </Alert>
      <Panel title={texts.waterfalls}>
        <div className={classes.sides}>
          <Chart recording={recording} label={texts.recorded} partsAt={first?.step} end={end} />
          <Chart recording={replayed} label={texts.replayed} partsAt={first?.step} end={end} />
        </div>
      </Panel>
      {result.diff === null ? null : <Panel title={texts.transcript}><RunDiffView diff={result.diff} names={{ before: texts.recorded, after: texts.replayed }} hasLinks={false} /></Panel>}
      {result.divergences.length === 0 ? null : <Panel title={texts.divergences}><Stack gap={0}>{result.divergences.map((it, index) => <DivergenceView key={index} divergence={it} isFirst={index === 0} />)}</Stack></Panel>}
    </>
  );
}
