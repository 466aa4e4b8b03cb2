/** What runs have cost: by day, agent, model and tenant; budgets; the forecast. */
import { Button, Group, SegmentedControl, Select, Skeleton, Stack, Table, Text, VisuallyHidden } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Suspense, useMemo } from "react";

import { serverUrl } from "../../api/address";
import { api, need, type Schemas } from "../../api/client";
import { readNow } from "../../api/clock";
import { cost as texts } from "../../texts/cost";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { formatCost, formatCount, formatPercent, formatTokens } from "../../ui/format";
import { lazyPart } from "../../ui/loadPart";
import { Page } from "../../ui/Page";
import { Figure, Figures, Panel } from "../../ui/Panel";
import { Empty, Failure, Loading } from "../../ui/states";
import { Budgets } from "./Budgets";
import { CostlyRuns } from "./CostlyRuns";
import { DAY_MS, FORECAST_DAYS, forecastMonth, isPriceless, makeSeries, OTHERS, sumGroups, type Group as UsageGroup, type Grouping, type Measure, type UsageRow } from "./figures";

const SpendChart = lazyPart(() => import("./SpendChart"));
const route = getRouteApi("/cost");
const GROUPINGS = ["agent", "model", "tenant"] as const;
const MEASURES = ["cost", "tokens", "runs"] as const;
const MONTH_DAYS = 38;

function formatMeasure(measure: Measure, value: number): string {
  return measure === "cost" ? formatCost(value * 1e9) : measure === "tokens" ? formatTokens(value) : formatCount(value);
}

function nameGroup(by: Grouping, name: string): string {
  if (name === OTHERS) return texts.others;
  return name !== "" ? name : by === "tenant" ? texts.noTenant : texts.noModel;
}

function useUsage(by: string, from: number) {
  return useQuery({ queryKey: ["usage", by, from], queryFn: ({ signal }) => need(api.GET("/v1/usage", { signal, params: { query: { by, from } } })) });
}

function listColumns(by: Grouping, total: number): readonly DataColumn<UsageGroup>[] {
  return [
    { id: "name", header: texts.byOptions[by], cell: (it) => (by === "agent" && it.name !== "" ? <Link to="/agents/$agentId" params={{ agentId: it.name }}>{it.name}</Link> : nameGroup(by, it.name)), sortValue: (it) => it.name },
    { id: "cost", header: texts.columns.cost, cell: (it) => (it.hasPrice ? formatCost(it.nanos) : <Text span size="sm" c="dimmed">{texts.noPrice}</Text>), sortValue: (it) => it.nanos, isRight: true },
    { id: "share", header: texts.columns.share, cell: (it) => (total === 0 ? ui.none : formatPercent(it.nanos / total)), isRight: true },
    { id: "runs", header: texts.columns.runs, cell: (it) => formatCount(it.runs), sortValue: (it) => it.runs, isRight: true },
    { id: "errors", header: texts.columns.errors, cell: (it) => formatCount(it.errors), sortValue: (it) => it.errors, isRight: true },
    { id: "input", header: texts.columns.input, cell: (it) => formatTokens(it.input), sortValue: (it) => it.input, isRight: true },
    { id: "output", header: texts.columns.output, cell: (it) => formatTokens(it.output), sortValue: (it) => it.output, isRight: true },
    { id: "cached", header: texts.columns.cached, cell: (it) => formatTokens(it.cached), sortValue: (it) => it.cached, isRight: true, isHiddenAtFirst: true },
  ];
}

function Totals({ total, now }: { total: Partial<Schemas["UsageSums"]>; now: number }) {
  const month = useUsage("day", Math.floor(now / DAY_MS) * DAY_MS - MONTH_DAYS * DAY_MS);
  const { monthNanos, endNanos } = useMemo(() => forecastMonth((month.data?.rows ?? []) as UsageRow[], now), [month.data, now]);
  const noPrice = <Text span size="sm">{texts.noPrice}</Text>;
  return (
    <>
      <Figures>
        <Figure name={texts.figures.spent}>{isPriceless([total]) ? noPrice : formatCost(total.cost_nanos ?? 0)}</Figure>
        <Figure name={texts.figures.month}>{monthNanos === null ? noPrice : formatCost(monthNanos)}</Figure>
        <Figure name={texts.figures.forecast}>{endNanos === null ? <Text span size="sm">{monthNanos === null ? texts.noPrice : texts.noForecast}</Text> : formatCost(endNanos)}</Figure>
        <Figure name={texts.figures.tokens}>{formatTokens((total.input_tokens ?? 0) + (total.output_tokens ?? 0))}</Figure>
        <Figure name={texts.figures.runs}>{formatCount(total.runs ?? 0)}</Figure>
        <Figure name={texts.figures.errors}>{formatCount(total.errors ?? 0)}</Figure>
      </Figures>
      <Text size="xs" c="dimmed">{texts.figures.forecast}: {texts.forecastHow(FORECAST_DAYS)}</Text>
    </>
  );
}

type DaysProps = { rows: readonly UsageRow[]; by: Grouping; measure: Measure; from: number; now: number; isTable: boolean };

/** Usage by day: as bars, with the same figures as a table for all who do not see bars. */
function Days({ rows, by, measure, from, now, isTable }: DaysProps) {
  const { names, points } = useMemo(() => makeSeries(rows, by, measure, from, now), [rows, by, measure, from, now]);
  const table = (
    <Table verticalSpacing={3}>
      <caption className="unseen">{texts.charts[measure]}</caption>
      <Table.Thead><Table.Tr><Table.Th>{texts.columns.day}</Table.Th>{names.map((it) => <Table.Th key={it} ta="right">{nameGroup(by, it)}</Table.Th>)}</Table.Tr></Table.Thead>
      <Table.Tbody>{points.map((point) => <Table.Tr key={point.day}><Table.Th scope="row" fw={400}>{new Date(point.day).toISOString().slice(0, 10)}</Table.Th>{names.map((it) => <Table.Td key={it} ta="right">{formatMeasure(measure, point[it] ?? 0)}</Table.Td>)}</Table.Tr>)}</Table.Tbody>
    </Table>
  );
  if (isTable) return <div tabIndex={0} role="region" aria-label={texts.rowsOf(texts.charts[measure])} style={{ maxHeight: 320, overflow: "auto" }}>{table}</div>;
  return (
    <>
      <div aria-hidden><Suspense fallback={<Skeleton height={260} />}><SpendChart points={points} names={names} label={(it) => nameGroup(by, it)} format={(it) => formatMeasure(measure, it)} /></Suspense></div>
      <VisuallyHidden>{table}</VisuallyHidden>
    </>
  );
}

function Choices({ days, by, measure }: { days: string; by: Grouping; measure: Measure }) {
  const change = useChangeSearch();
  const list = (names: Record<string, string>) => Object.entries(names).map(([value, label]) => ({ value, label }));
  return (
    <Group gap="sm">
      <Select aria-label={texts.days} data={list(texts.dayOptions)} value={days} allowDeselect={false} w={110} onChange={(value) => change({ days: value ?? undefined })} />
      <SegmentedControl aria-label={texts.by} data={list(texts.byOptions)} value={by} onChange={(value) => change({ by: value, sort: undefined })} />
      <SegmentedControl aria-label={texts.measure} data={list(texts.measures)} value={measure} onChange={(value) => change({ measure: value })} />
    </Group>
  );
}

export function CostPage() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const days = search.days !== undefined && Object.hasOwn(texts.dayOptions, search.days) ? search.days : "30";
  const by = GROUPINGS.find((it) => it === search.by) ?? "agent";
  const today = Math.floor(readNow() / DAY_MS) * DAY_MS;
  const from = today - (Number(days) - 1) * DAY_MS;
  const usage = useUsage(`day,${by}`, from);
  const rows = (usage.data?.rows ?? []) as UsageRow[];
  const groups = useMemo(() => sumGroups(rows, by), [rows, by]);
  const total = usage.data?.total.cost_nanos ?? 0;
  const isUnpriced = groups.length > 0 && groups.some((it) => !it.hasPrice);
  const measure = MEASURES.find((it) => it === search.measure) ?? (total === 0 && isUnpriced ? "tokens" : "cost");
  const columns = useMemo(() => listColumns(by, total), [by, total]);
  const isTable = search.view === "table";
  const toggle = <Button variant="subtle" onClick={() => change({ view: isTable ? undefined : "table" })}>{isTable ? texts.asChart : texts.asTable}</Button>;
  return (
    <Page title={shell.pages.cost} description={texts.description} actions={<Choices days={days} by={by} measure={measure} />}>
      {usage.isError ? <Failure error={usage.error} onRetry={() => void usage.refetch()} /> : usage.data === undefined ? <Loading /> : (
        <Stack gap="md">
          {rows.length === 0 ? <Empty title={texts.empty} action={<Button variant="filled" renderRoot={(props) => <Link to="/chat/{-$threadId}" {...props} />}>{texts.startChat}</Button>} command={texts.command(serverUrl)}>{texts.emptyHelp}</Empty> : (
            <>
              <Totals total={usage.data.total} now={today} />
              {isUnpriced ? <Text size="sm">{isPriceless([usage.data.total]) ? texts.priceHint : texts.partHint} <Link to="/models" style={{ textDecoration: "underline" }}>{texts.setPrice}</Link></Text> : null}
              <Panel title={texts.charts[measure]} actions={toggle}><Days rows={rows} by={by} measure={measure} from={from} now={today} isTable={isTable} /></Panel>
              <Panel title={texts.groups[by]}><DataTable label={texts.rowsOf(texts.groups[by])} rows={groups} columns={columns} rowId={(it) => it.name} address={{ sort: search.sort, columns: search.columns }} onAddress={change} /></Panel>
              <CostlyRuns from={from} />
            </>
          )}
          <Budgets />
        </Stack>
      )}
    </Page>
  );
}
