/** The raw log of a run: every event with its cursor and time, filtered, followed while the run executes. */
import { Badge, Box, Group, Select, Switch, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { memo, useEffect, useMemo, useRef, useState } from "react";

import { run as texts } from "../../texts/run";
import { formatTime } from "../../ui/format";
import { JsonText } from "../../ui/parts";
import { useSettings } from "../../ui/settings";
import { Empty, Failure, Loading } from "../../ui/states";
import { useVirtualRows } from "../../ui/useVirtualRows";
import { filterRows, formatSince, type EventRow } from "./eventRows";
import { eventsQuery } from "./queries";
import classes from "./run.module.css";
import type { TabProps } from "./RunPage";
import { SidePanel } from "./SpanPanel";

const ROW_PX = 28;
const TYPING_MS = 200;

type LineProps = { row: EventRow; top: number; from: number; isChosen: boolean; isCurrent: boolean; onOpen: (seq: number) => void };

const Line = memo(function Line({ row, top, from, isChosen, isCurrent, onOpen }: LineProps) {
  return (
    <button type="button" className={classes.event} style={{ transform: `translateY(${top}px)` }} data-problem={row.isProblem || undefined} data-chosen={isChosen || undefined} data-current={isCurrent || undefined} aria-pressed={isChosen} onClick={() => onOpen(row.seq)}>
      <span className={classes.number}>{row.seq}</span>
      <span className={classes.number}>{formatSince(row.at, from)}</span>
      <span className={`${classes.number} ${classes.stepCell}`}>{row.step}</span>
      <span className={classes.type}>{row.type}</span>
      <span className={classes.summary}>{row.summary}</span>
    </button>
  );
});

function EventPanel({ runId, seq, onClose }: { runId: string; seq: number; onClose: () => void }) {
  const { data, error, refetch } = useQuery(eventsQuery(runId, seq - 1, seq));
  const { timeZone } = useSettings();
  const found = data?.[0];
  return (
    <SidePanel title={texts.events.detail(seq)} onClose={onClose}>
      {error !== null ? <Failure error={error} onRetry={() => void refetch()} /> : found === undefined ? <Loading rows={3} /> : (
        <>
          <Text size="xs" c="dimmed" mb="xs">{formatTime(found.created_at, timeZone)}</Text>
          <JsonText value={found} maxHeight="calc(100vh - 260px)" />
        </>
      )}
    </SidePanel>
  );
}

export function EventsTab({ run, search, onSearch, log }: TabProps) {
  const opener = useRef<Element | null>(null);
  const [typed, setTyped] = useState(search.q ?? "");
  const isLive = run.status === "running" || run.status === "created";
  const [isFollowing, setIsFollowing] = useState(isLive);
  const changeText = useDebouncedCallback((value: string) => onSearch({ q: value === "" ? undefined : value }), TYPING_MS);
  const rows = useMemo(() => filterRows(log.rows, search.type, search.q), [log.rows, search.type, search.q]);
  const types = useMemo(() => [...new Set(log.rows.map((it) => it.type))].sort(), [log.rows]);
  const from = run.started_at ?? run.created_at;
  const open = useMemo(() => (at: number) => {
    opener.current = document.activeElement;
    onSearch({ seq: String(at) });
  }, [onSearch]);
  const { scroller, virtual, current, setCurrent } = useVirtualRows({ rows, rowPx: ROW_PX, overscan: 8, headPx: ROW_PX, onOpen: (row) => open(row.seq) });
  const seq = Number(search.seq) || null;

  useEffect(() => {
    if (isFollowing && rows.length > 0) virtual.scrollToIndex(rows.length - 1, { align: "end" });
  }, [isFollowing, rows.length, virtual]);
  const stepIndex = search.step === undefined ? -1 : rows.findIndex((it) => it.step === Number(search.step));
  useEffect(() => {
    if (stepIndex < 0) return;
    setCurrent(stepIndex);
    virtual.scrollToIndex(stepIndex, { align: "start" });
  }, [search.step, stepIndex < 0]);

  const close = () => {
    onSearch({ seq: undefined });
    if (opener.current instanceof HTMLElement) opener.current.focus();
  };

  return (
    <>
      <Group gap="xs" mb="xs">
        <TextInput data-page-filter aria-label={texts.events.search} placeholder={texts.events.search} leftSection={<IconSearch size={14} />} value={typed} w={220} onChange={(event) => { setTyped(event.currentTarget.value); changeText(event.currentTarget.value); }} />
        <Select aria-label={texts.events.type} placeholder={texts.events.type} data={[{ value: "problems", label: texts.events.problems }, ...types]} value={search.type ?? null} onChange={(value) => onSearch({ type: value ?? undefined })} clearable searchable w={190} />
        {isLive ? <Switch label={texts.events.follow} checked={isFollowing} onChange={(event) => setIsFollowing(event.currentTarget.checked)} /> : null}
        <Badge variant="default" role="status">{texts.feed[log.feed]}</Badge>
        <Text size="xs" c="dimmed" ml="auto">{texts.events.count(rows.length, log.rows.length)}</Text>
      </Group>
      {log.rows.length === 0 ? (log.feed === "catching up" ? <Loading /> : log.problem === null ? <Empty title={texts.events.empty} command={`awaken runs events ${run.run_id}`}>{texts.events.emptyHelp}</Empty> : <Failure error={new Error(log.problem)} />) : rows.length === 0 ? <Empty title={texts.events.noMatch} /> : (
        <Box className={classes.split} data-open={seq !== null || undefined}>
          <div ref={scroller} className={classes.list} style={{ height: `min(${(rows.length + 1) * ROW_PX + 4}px, calc(100vh - 310px))`, minHeight: 200 }} tabIndex={0} role="region" aria-label={texts.events.label} onWheel={() => setIsFollowing(false)}>
            <div className={classes.head}>
              <div className={classes.eventHead}>
                <span className={classes.number}>{texts.events.columns.seq}</span><span className={classes.number}>{texts.events.columns.time}</span><span className={`${classes.number} ${classes.stepCell}`}>{texts.events.columns.step}</span><span>{texts.events.columns.type}</span><span>{texts.events.columns.summary}</span>
              </div>
            </div>
            <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
              {virtual.getVirtualItems().map((item) => {
                const row = rows[item.index];
                return row === undefined ? null : <Line key={row.seq} row={row} top={item.start - ROW_PX} from={from} isChosen={row.seq === seq} isCurrent={item.index === current} onOpen={open} />;
              })}
            </div>
          </div>
          {seq === null ? null : <EventPanel runId={run.run_id} seq={seq} onClose={close} />}
        </Box>
      )}
    </>
  );
}
