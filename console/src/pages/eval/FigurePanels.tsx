/** The figures of an eval in tables: variants by scorer with intervals, comparisons with their verdicts, and the gate. */
import { Alert, Group, List, Stack, Table, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import type { Comparison, Figures, Gate, ScorerFigures, VariantFigures } from "../../api/evals";
import { evals as texts } from "../../texts/evals";
import classes from "../../ui/evals/evals.module.css";
import { Difference, GateTag, Missing, Rate, Verdict } from "../../ui/evals/parts";
import { formatRate, formatUsd, shortenReason } from "../../ui/evals/words";
import { formatDuration, formatTokens } from "../../ui/format";
import { Panel } from "../../ui/Panel";
import { Tag } from "../../ui/Tag";

export function GatePanel({ gate }: { gate: Gate | null | undefined }) {
  if (gate == null) return null;
  return (
    <Panel title={texts.one.gate} description={texts.one.unpublished} actions={<GateTag status={gate.status} />}>
      <Stack gap={4}>
        {(gate.checks ?? []).map((it) => <Text key={it.condition} size="sm" component="div" style={{ overflowWrap: "anywhere" }}><GateTag status={it.status} label={it.status} /> <Text span size="sm" ff="monospace">{it.condition}</Text> · {it.reason}</Text>)}
        {(gate.warnings ?? []).map((it) => <Text key={it} size="sm" c="dimmed">{it}</Text>)}
      </Stack>
    </Panel>
  );
}

function Judge({ figures }: { figures: ScorerFigures }) {
  if (figures.is_judged !== true) return null;
  const { calibration } = figures;
  const isCalibrated = calibration?.is_calibrated === true && calibration.kappa != null;
  return (
    <Text span size="xs">{" "}
      <Link to="/calibration" search={{ scorer: figures.scorer }}><Tag color={isCalibrated ? "blue" : "yellow"}>{isCalibrated ? texts.one.calibrated((calibration.kappa ?? 0).toFixed(2)) : texts.one.uncalibrated}</Tag></Link>
      {figures.corrected == null ? null : ` ${texts.one.corrected(formatRate(figures.corrected.rate))}`}
    </Text>
  );
}

function ScorerRow({ variant, figures, span, tries }: { variant: VariantFigures | null; figures: ScorerFigures; span: number; tries: number }) {
  const most = (figures.passes ?? []).at(-1);
  return (
    <Table.Tr>
      {variant === null ? null : <Table.Th scope="rowgroup" rowSpan={span} style={{ verticalAlign: "top" }}>{variant.variant}<Resources variant={variant} /></Table.Th>}
      <Table.Td>{figures.scorer}<Judge figures={figures} /></Table.Td>
      <Table.Td><Rate value={figures.rate} interval={figures.interval} /></Table.Td>
      <Table.Td ta="right">{most === undefined || most.k < 2 ? <Missing>–</Missing> : <span title={texts.one.passesAllHelp(most.k)}>{most.k === tries ? null : `${texts.one.passesAll(most.k)} `}{formatRate(most.all)}</span>}</Table.Td>
      <Table.Td ta="right">{figures.flake_rate == null ? <Missing>–</Missing> : formatRate(figures.flake_rate)}</Table.Td>
      <Table.Td ta="right">{figures.errors ?? 0}</Table.Td>
      <Table.Td ta="right">{figures.missing ?? 0}</Table.Td>
    </Table.Tr>
  );
}

/** A variant of which no sample has a score: that is no row of zeros, and no empty table. */
function UnscoredRow({ variant }: { variant: VariantFigures }) {
  const missing = variant.missing ?? 0;
  return (
    <Table.Tr>
      <Table.Th scope="row">{variant.variant}<Resources variant={variant} /></Table.Th>
      <Table.Td colSpan={5}><Missing>{texts.one.unscored}</Missing></Table.Td>
      <Table.Td ta="right">{missing}</Table.Td>
    </Table.Tr>
  );
}

/** Tokens, cost and time: the middle and the upper end; what is not known is left out. */
function Resources({ variant }: { variant: VariantFigures }) {
  const parts = [
    variant.tokens == null ? null : `${formatTokens(Math.round(variant.tokens.p50))} / ${formatTokens(Math.round(variant.tokens.p95))} tokens`,
    variant.cost_usd == null ? null : `${formatUsd(variant.cost_usd.p50)} / ${formatUsd(variant.cost_usd.p95)}`,
    variant.ms == null ? null : `${formatDuration(variant.ms.p50)} / ${formatDuration(variant.ms.p95)}`,
  ].filter((it) => it !== null);
  return <Text size="xs" c="dimmed" fw={400} style={{ whiteSpace: "nowrap" }}>{parts.map((it) => <span key={it} style={{ display: "block" }}>{it}</span>)}</Text>;
}

/** `order`: the variants as the eval names them; the first is what the others are compared with. */
export function VariantTable({ figures, order, isLive }: { figures: Figures; order: readonly string[]; isLive: boolean }) {
  const variants = [...(figures.variants ?? [])].sort((a, b) => order.indexOf(a.variant) - order.indexOf(b.variant));
  if (variants.length === 0) return null;
  const tries = Math.max(0, ...variants.flatMap((it) => (it.scorers ?? []).map((scorer) => (scorer.passes ?? []).at(-1)?.k ?? 0)));
  return (
    <Panel title={texts.one.figures} description={isLive ? `${texts.one.soFar} ${texts.one.resources}` : texts.one.resources} isFlush>
      <div className={classes.scroll} style={{ border: 0 }} tabIndex={0} role="region" aria-label={texts.tableOf(texts.one.figures)}>
        <Table miw={760}>
          <Table.Thead><Table.Tr>
            <Table.Th>{texts.columns.variants}</Table.Th><Table.Th>{texts.one.scorer}</Table.Th><Table.Th>{texts.one.rate}</Table.Th><Table.Th ta="right">{tries < 2 ? texts.one.passesK : <span title={texts.one.passesAllHelp(tries)}>{texts.one.passesAll(tries)}</span>}</Table.Th><Table.Th ta="right">{texts.one.flaky}</Table.Th><Table.Th ta="right">{texts.one.errors}</Table.Th><Table.Th ta="right">{texts.one.missing}</Table.Th>
          </Table.Tr></Table.Thead>
          {variants.map((it) => <Table.Tbody key={it.variant}>{(it.scorers ?? []).length === 0 ? <UnscoredRow variant={it} /> : null}{(it.scorers ?? []).map((scorer, index) => <ScorerRow key={scorer.scorer} variant={index === 0 ? it : null} figures={scorer} span={it.scorers?.length ?? 1} tries={tries} />)}</Table.Tbody>)}
        </Table>
      </div>
    </Panel>
  );
}

function Reason({ text }: { text: string }) {
  return text === "" ? null : <Text size="sm" mt={4}>{text}</Text>;
}

/** Each scorer of a comparison: its verdict in words, the difference with its interval. */
export function ComparisonTable({ comparison }: { comparison: Comparison }) {
  return (
    <Stack gap="xs">
      {(comparison.scorers ?? []).map((it) => (
        <div key={it.scorer} className={classes.step}>
          <Group gap="sm" wrap="wrap"><Verdict verdict={it.verdict} label={it.scorer} /><Difference value={it.difference} interval={it.interval} /><Text span size="xs" c="dimmed" title={texts.comparing.pHelp}>{it.p_adjusted == null ? null : `${texts.comparing.p} ${it.p_adjusted.toFixed(3)}`}</Text><Text span size="xs" c="dimmed">{texts.comparing.inCases(it.cases ?? 0)}</Text></Group>
          <Reason text={shortenReason(it.reason)} />
          {([["onlyFirst", it.only_first], ["onlySecond", it.only_second], ["rescored", it.rescored]] as const).map(([name, ids]) => (ids === undefined || ids.length === 0 ? null : <Text key={name} size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>{texts.comparing[name]}: {ids.join(", ")}</Text>))}
        </div>
      ))}
      {comparison.cost_ratio == null ? null : <Text size="sm">{texts.comparing.cost}: {texts.comparing.times(comparison.cost_ratio.toFixed(2))}</Text>}
      {(comparison.warnings ?? []).map((it) => <Text key={it} size="sm" c="dimmed">{it}</Text>)}
    </Stack>
  );
}

export function Comparisons({ comparisons, warnings, evalId }: { comparisons: readonly Comparison[]; warnings: readonly string[]; evalId: string }) {
  if (comparisons.length === 0) return null;
  return (
    <>
      {warnings.length === 0 ? null : <Alert color="yellow"><List size="sm">{warnings.map((it) => <List.Item key={it}>{it}</List.Item>)}</List></Alert>}
      {comparisons.map((it) => (
        <Panel key={`${it.first}/${it.second}`} title={`${it.first} → ${it.second}`} actions={<Text size="sm"><Link to="/compare" search={{ first: evalId, second: evalId }}>{texts.comparing.byCase}</Link></Text>}>
          <ComparisonTable comparison={it} />
        </Panel>
      ))}
    </>
  );
}
