/** What a run cost: tokens and money by model and by step. */
import { Group, Stack, Table, Text, Title } from "@mantine/core";
import { useMemo } from "react";

import { run as texts } from "../../texts/run";
import { ui } from "../../texts/ui";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { formatCost, formatCount, formatDuration, formatPercent, formatTokens } from "../../ui/format";
import { Empty, Failure, Loading } from "../../ui/states";
import { listCalls, sumByModel, type CallCost, type ModelCost } from "./costs";
import { useTimeline } from "./queries";
import classes from "./run.module.css";
import type { TabProps } from "./RunPage";

const named = texts.cost.columns;
const cost = (nanos: number | null) => (nanos === null ? ui.none : formatCost(nanos));

function Share({ part }: { part: number }) {
  return <Group gap={8} wrap="nowrap"><div style={{ width: 120 }}><div className={classes.share} style={{ width: `${part * 100}%` }} /></div><Text span size="xs">{formatPercent(part)}</Text></Group>;
}

function ModelTable({ models, all }: { models: readonly ModelCost[]; all: number }) {
  return (
    <Table.ScrollContainer minWidth={420} type="native" tabIndex={0} role="region" aria-label={texts.cost.models}>
      <Table fz="sm" verticalSpacing={4}>
        <Table.Thead><Table.Tr><Table.Th>{named.model}</Table.Th><Table.Th ta="right">{named.calls}</Table.Th><Table.Th ta="right">{named.input}</Table.Th><Table.Th ta="right">{named.output}</Table.Th><Table.Th ta="right">{named.cost}</Table.Th><Table.Th>{named.share}</Table.Th></Table.Tr></Table.Thead>
        <Table.Tbody>
          {models.map((it) => (
            <Table.Tr key={it.model}>
              <Table.Td>{it.model}</Table.Td><Table.Td ta="right">{formatCount(it.calls)}</Table.Td><Table.Td ta="right">{formatTokens(it.input)}</Table.Td><Table.Td ta="right">{formatTokens(it.output)}</Table.Td><Table.Td ta="right">{cost(it.nanos)}</Table.Td>
              <Table.Td><Share part={all === 0 ? 0 : (it.input + it.output) / all} /></Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function callColumns(all: number): DataColumn<CallCost>[] {
  return [
    { id: "step", header: named.step, cell: (it) => it.step, sortValue: (it) => it.step, isRight: true, width: 60 },
    { id: "model", header: named.model, cell: (it) => it.model, sortValue: (it) => it.model },
    { id: "input", header: named.input, cell: (it) => formatTokens(it.input), sortValue: (it) => it.input, isRight: true },
    { id: "output", header: named.output, cell: (it) => formatTokens(it.output), sortValue: (it) => it.output, isRight: true },
    { id: "cost", header: named.cost, cell: (it) => cost(it.nanos), sortValue: (it) => it.nanos, isRight: true },
    { id: "took", header: named.took, cell: (it) => formatDuration(it.ms), sortValue: (it) => it.ms, isRight: true },
    { id: "first", header: named.first, cell: (it) => (it.firstToken === null ? ui.none : formatDuration(it.firstToken)), sortValue: (it) => it.firstToken, isRight: true },
    { id: "attempts", header: named.attempts, cell: (it) => it.attempts, sortValue: (it) => it.attempts, isRight: true },
    { id: "share", header: named.share, cell: (it) => <Share part={all === 0 ? 0 : (it.input + it.output) / all} />, sortValue: (it) => it.input + it.output },
  ];
}

export function CostTab({ run, search, onSearch }: TabProps) {
  const { data, error, refetch } = useTimeline(run.run_id);
  const calls = useMemo(() => listCalls(data?.spans ?? []), [data]);
  const models = useMemo(() => sumByModel(calls), [calls]);
  const all = calls.reduce((sum, it) => sum + it.input + it.output, 0);
  const byCall = useMemo(() => callColumns(all), [all]);
  if (error !== null && data === undefined) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Loading />;
  if (calls.length === 0) return <Empty title={texts.cost.none} />;
  const { usage } = run;
  return (
    <Stack gap="md">
      <dl className={classes.facts}>
        <div className={classes.fact}><dt>{texts.facts.tokens}</dt><dd>{texts.tokensInOut(formatTokens(run.input_tokens ?? 0), formatTokens(run.output_tokens ?? 0))}</dd></div>
        {usage.cache_read_tokens == null ? null : <div className={classes.fact}><dt>{texts.cost.cached}</dt><dd>{formatTokens(usage.cache_read_tokens)}</dd></div>}
        {usage.thinking_tokens == null ? null : <div className={classes.fact}><dt>{texts.cost.thinking}</dt><dd>{formatTokens(usage.thinking_tokens)}</dd></div>}
        <div className={classes.fact}><dt>{texts.facts.cost}</dt><dd>{cost(usage.cost_nanos ?? null)}</dd></div>
      </dl>
      {usage.cost_nanos == null ? <Text size="sm" c="dimmed">{texts.cost.noPrices}</Text> : null}
      <div><Title order={2} mb={4}>{texts.cost.models}</Title><ModelTable models={models} all={all} /></div>
      <div><Title order={2} mb={4}>{texts.cost.steps}</Title><DataTable label={texts.cost.steps} rows={calls} columns={byCall} rowId={(it) => it.key} address={{ sort: search.sort, columns: search.columns }} onAddress={onSearch} onOpen={(it) => onSearch({ tab: undefined, step: String(it.step), span: `step-${it.step}` })} height="calc(100vh - 420px)" /></div>
    </Stack>
  );
}
