/** The raw log of a thread: read page by page, then followed; only the rows in view are drawn. */
import { Box, Button, Group, Select, Text, UnstyledButton } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useRef, useState } from "react";

import { threads as texts } from "../../texts/threads";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { formatTime } from "../../ui/format";
import { JsonDrawer, Status } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import { useSettings } from "../../ui/settings";
import { Failure } from "../../ui/states";
import { useThreadLog, type LogRow } from "./threadLog";
import classes from "./Thread.module.css";

const ROW_PX = 28;
const PREVIEW_CHARS = 300;
const route = getRouteApi("/threads/$threadId");

function previewEvent(row: LogRow): string {
  const { event_type: _, ...rest } = row.event;
  return JSON.stringify(rest).slice(0, PREVIEW_CHARS);
}

export function ThreadLog({ threadId }: { threadId: string }) {
  const { type } = route.useSearch();
  const change = useChangeSearch();
  const { timeZone } = useSettings();
  const scroller = useRef<HTMLDivElement>(null);
  const [shown, setShown] = useState<LogRow | undefined>(undefined);
  const { rows, state, error, hasMore, loadMore } = useThreadLog(threadId);
  const types = useMemo(() => [...new Set(rows.map((it) => String(it.event.event_type)))].sort(), [rows]);
  const visible = useMemo(() => (type === undefined ? rows : rows.filter((it) => it.event.event_type === type)), [rows, type]);
  const virtual = useVirtualizer({ count: visible.length, getScrollElement: () => scroller.current, estimateSize: () => ROW_PX, overscan: 20 });
  if (error !== null) return <Failure error={error} />;
  return (
    <Box>
      <Group gap="sm" mb="xs">
        <Select aria-label={texts.log.filter} placeholder={texts.log.filter} data={types} value={type ?? null} clearable searchable onChange={(it) => change({ type: it ?? undefined })} w={200} />
        <Text component="div" size="sm" role="status"><Status value={state === "live" ? "ok" : state === "cut" ? "failed" : "running"} label={texts.log[state]} /></Text>
        <Text size="xs" c="dimmed" ml="auto">{ui.rows(visible.length, hasMore)}</Text>
      </Group>
      {rows.length === 0 && state === "live" ? <Text size="sm" c="dimmed">{texts.log.empty}</Text> : (
        <div ref={scroller} className={classes.log} tabIndex={0} role="region" aria-label={texts.log.label}>
          <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
            {virtual.getVirtualItems().map((item) => {
              const row = visible[item.index];
              if (row === undefined) return null;
              return (
                <UnstyledButton key={row.seq} className={classes.event} style={{ transform: `translateY(${item.start}px)`, height: ROW_PX }} onClick={() => setShown(row)}>
                  <span className={classes.seq}>{row.seq}</span>
                  <span className={classes.type}>{String(row.event.event_type)}</span>
                  <span className={classes.preview}><ShownText text={previewEvent(row)} /></span>
                  <span className={classes.at}>{row.at === null ? "" : formatTime(row.at, timeZone)}</span>
                </UnstyledButton>
              );
            })}
          </div>
        </div>
      )}
      {hasMore && state !== "catchingUp" ? <Group justify="center" mt="sm"><Button onClick={loadMore}>{ui.more}</Button></Group> : null}
      <JsonDrawer title={shown === undefined ? "" : `${shown.seq} · ${String(shown.event.event_type)}`} value={shown?.event} onClose={() => setShown(undefined)} />
    </Box>
  );
}
