/** The waterfall of a run: as a chart and as a table, with the payload of a span beside it. */
import { Box, Button, Group, SegmentedControl, Switch, Text } from "@mantine/core";
import { IconZoomIn, IconZoomOut } from "@tabler/icons-react";
import { useCallback, useMemo, useRef, useState } from "react";

import { run as texts } from "../../texts/run";
import { useNow } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import { useChildTimelines, useTimeline } from "./queries";
import classes from "./run.module.css";
import type { TabProps } from "./RunPage";
import { SpanPanel } from "./SpanPanel";
import { buildRows, keepProblems, type Span, type SpanRow } from "./waterfall";
import looks from "./waterfall.module.css";
import { WaterfallChart } from "./WaterfallChart";
import { WaterfallTable } from "./WaterfallTable";

const ZOOM_MAX = 256;
const CHILDREN_AT_FIRST = 10;

function listChildren(spans: readonly Span[]): string[] {
  return spans.flatMap((it) => [...(it.child_run_id == null ? [] : [it.child_run_id]), ...listChildren(it.children ?? [])]);
}

/** The child runs whose timelines are drawn: the first ones, and those that a person asked for. */
function useShownChildren(spans: readonly Span[]) {
  const [changed, setChanged] = useState<ReadonlyMap<string, boolean>>(new Map());
  const known = useMemo(() => [...new Set(listChildren(spans))], [spans]);
  const extra = [...changed].filter(([id, is]) => is && !known.includes(id)).map(([id]) => id);
  const shown = [...known.filter((it, index) => changed.get(it) ?? index < CHILDREN_AT_FIRST), ...extra];
  const toggle = useCallback((id: string, is: boolean) => setChanged((now) => new Map(now).set(id, is)), []);
  return { shown, toggle, timelines: useChildTimelines(shown) };
}

const NO_SPANS: readonly Span[] = [];

export function WaterfallTab({ run, search, onSearch }: Omit<TabProps, "log">) {
  const { data, error, refetch } = useTimeline(run.run_id);
  const spans = data?.spans ?? NO_SPANS;
  const isLive = run.status !== "done";
  const now = useNow(isLive ? 1_000 : 60_000);
  const { shown, toggle, timelines } = useShownChildren(spans);
  const startedAt = data?.startedAt ?? run.started_at ?? run.created_at;
  const until = isLive ? Math.max(0, now - startedAt) : (data?.endedAt ?? run.finished_at ?? startedAt) - startedAt;
  const hasFailed = run.termination?.type === "error" || run.termination?.type === "blocked";
  const hasOpen = spans.some((it) => it.ms == null);
  // What has ended does not change with the clock.
  const steady = hasOpen || timelines.size > 0 ? until : 0;
  const rows = useMemo(() => buildRows(spans, { until: steady, startedAt, children: timelines, hasFailed }), [spans, steady, startedAt, timelines, hasFailed]);
  const isFiltered = search.only === "problems";
  const listed = useMemo(() => (isFiltered ? keepProblems(rows) : rows), [rows, isFiltered]);
  const opener = useRef<HTMLElement | null>(null);
  const chosen = search.span === undefined ? undefined : rows.find((it) => it.key === search.span);
  const open = useCallback((row: SpanRow) => {
    opener.current = document.activeElement instanceof HTMLElement ? document.activeElement : null;
    onSearch({ span: row.key, ...(row.childOf === null && row.step > 0 ? { step: String(row.step) } : {}) });
  }, [onSearch]);
  const close = () => {
    onSearch({ span: undefined });
    opener.current?.focus();
  };
  if (error !== null && data === undefined) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Loading />;
  if (rows.length === 0) return <Empty title={texts.waterfall.empty}>{texts.waterfall.emptyHelp}</Empty>;

  const zoom = Math.min(ZOOM_MAX, Math.max(1, Number(search.zoom) || 1));
  const setZoom = (to: number) => onSearch({ zoom: to <= 1 ? undefined : String(Math.min(ZOOM_MAX, to)) });
  const isTable = search.view === "table";
  return (
    <>
      <div className={looks.tools}>
        <SegmentedControl aria-label={texts.waterfall.view} value={isTable ? "table" : "chart"} onChange={(value) => onSearch({ view: value === "table" ? "table" : undefined })} data={[{ value: "chart", label: texts.waterfall.asChart }, { value: "table", label: texts.waterfall.asTable }]} />
        <Switch label={texts.waterfall.problems} checked={isFiltered} onChange={(event) => onSearch({ only: event.currentTarget.checked ? "problems" : undefined })} />
        {isTable ? null : (
          <Group gap={4}>
            <Button px={8} aria-label={texts.waterfall.zoomOut} disabled={zoom <= 1} onClick={() => setZoom(zoom / 2)}><IconZoomOut size={14} /></Button>
            <Button px={8} aria-label={texts.waterfall.zoomIn} disabled={zoom >= ZOOM_MAX} onClick={() => setZoom(zoom * 2)}><IconZoomIn size={14} /></Button>
            <Button disabled={zoom <= 1} onClick={() => setZoom(1)}>{texts.waterfall.fit}</Button>
          </Group>
        )}
        <Text size="xs" c="dimmed" ml="auto">{data.isWhole ? texts.waterfall.spans(listed.length) : texts.waterfall.loading(listed.length)}</Text>
      </div>
      {listed.length === 0 ? <Empty title={texts.waterfall.noProblems}>{texts.waterfall.noProblemsHelp}</Empty> : (
        <Box className={classes.splitIn}><Box className={classes.split} data-open={chosen !== undefined || undefined}>
          {isTable ? <WaterfallTable rows={listed} search={search} onSearch={onSearch} onOpen={open} /> : (
            <WaterfallChart rows={listed} isLive={isLive && hasOpen} end={until} zoom={zoom} step={search.step} chosen={chosen?.key} shownChildren={shown} onOpen={open} onToggleChild={toggle} />
          )}
          {chosen === undefined ? null : <SpanPanel runId={chosen.childOf ?? run.run_id} row={chosen} onClose={close} />}
        </Box></Box>
      )}
    </>
  );
}
