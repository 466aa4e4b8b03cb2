/** Beside a conversation: the figures of its run, its state, and the events as they came, with their cursors. */
import { Box, Button, CloseButton, Group, SimpleGrid, Tabs, Text, UnstyledButton } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef, useState } from "react";

import { useMay } from "../../api/caller";
import { chat as texts } from "../../texts/chat";
import { datasets } from "../../texts/datasets";
import { CaptureDialog } from "../../ui/evals/CaptureDialog";
import { formatCost, formatCount, formatTokens } from "../../ui/format";
import { CopyableId, JsonDrawer, JsonText, Status } from "../../ui/parts";
import { showHidden } from "../../ui/hostileText";
import { Loading } from "../../ui/states";
import classes from "./Chat.module.css";
import type { RunFigures } from "./fold";
import { RunTab } from "./RunTabs";
import type { ChatSession, RawEvent, SessionState } from "./session";

function Figure({ label, value }: { label: string; value: string }) {
  return <Box><Text size="xs" c="dimmed">{label}</Text><Text size="md" fw={600}>{value}</Text></Box>;
}

function Figures({ run, isComing }: { run: RunFigures | null; isComing: boolean }) {
  if (run === null && isComing) return <Box p="sm"><Loading rows={2} /></Box>;
  if (run === null) return <Text size="sm" c="dimmed" p="sm">{texts.noRun}</Text>;
  return (
    <Box p="sm">
      <Group justify="space-between" mb="xs"><Status value={run.state === "ended" ? "done" : run.state} label={run.state} /><Text span size="xs"><Link to="/runs/$runId" params={{ runId: run.runId }}>{texts.runPage}</Link></Text></Group>
      <CopyableId id={run.runId} chars={24} />
      <SimpleGrid cols={2} mt="sm" spacing="xs">
        <Figure label={texts.steps} value={formatCount(run.steps)} />
        <Figure label={texts.cost} value={formatCost(run.costNanos)} />
        <Figure label={texts.inputTokens} value={formatTokens(run.inputTokens)} />
        <Figure label={texts.outputTokens} value={formatTokens(run.outputTokens)} />
      </SimpleGrid>
      <SaveAsCase runId={run.runId} />
    </Box>
  );
}

function SaveAsCase({ runId }: { runId: string }) {
  const may = useMay();
  const [isOpen, setOpen] = useState(false);
  if (!may("eval")) return null;
  return <><Button mt="sm" onClick={() => setOpen(true)}>{datasets.capture.open}</Button><CaptureDialog runId={runId} isOpen={isOpen} onClose={() => setOpen(false)} /></>;
}

const PREVIEW_CHARS = 120;

function summarize({ event }: RawEvent): string {
  const { event_type: _type, ...rest } = event;
  const text = "delta" in rest && typeof rest.delta === "string" ? rest.delta.slice(0, PREVIEW_CHARS) : JSON.stringify(rest);
  return showHidden(text.slice(0, PREVIEW_CHARS)).replaceAll("\n", "⏎");
}

function RawEvents({ events, count }: { events: readonly RawEvent[]; count: number }) {
  const scroller = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState<RawEvent | undefined>();
  const list = useVirtualizer({ count, getScrollElement: () => scroller.current, estimateSize: () => 26, overscan: 12 });
  if (count === 0) return <Text size="sm" c="dimmed" p="sm">{texts.noEvents}</Text>;
  return (
    <>
      <div ref={scroller} className={classes.sideScroll} tabIndex={0} role="region" aria-label={texts.rawEvents}>
        <div style={{ height: list.getTotalSize(), position: "relative" }}>
          {list.getVirtualItems().map((row) => {
            const event = events[row.index];
            return event === undefined ? null : (
              <div key={row.key} className={classes.rawRow} style={{ transform: `translateY(${row.start}px)` }}>
                <UnstyledButton className={classes.rawButton} onClick={() => setOpen(event)}>
                  <span className={classes.rawId}>{event.id ?? "·"}</span><span>{event.event.event_type}</span><Text span size="xs" c="dimmed" ff="monospace" truncate>{summarize(event)}</Text>
                </UnstyledButton>
              </div>
            );
          })}
        </div>
      </div>
      <JsonDrawer title={open?.event.event_type} value={open?.event} onClose={() => setOpen(undefined)} />
    </>
  );
}

type Props = { session: ChatSession; state: SessionState; tab: string; onTab: (tab: string) => void; onClose: () => void };

const RUN_TABS = ["waterfall", "requests"] as const;

export function SidePanel({ session, state, tab, onTab, onClose }: Props) {
  const runId = state.conversation.run?.runId;
  // The run of a conversation is known once its events have come.
  const isComing = state.isLoading || (runId === undefined && state.conversation.turns.length > 0);
  return (
    <aside className={classes.side} data-wide={tab === "waterfall" || tab === "requests" || undefined} aria-label={texts.details}>
      <Group justify="space-between" px="sm" pt="xs" wrap="nowrap"><Text size="sm" fw={600}>{texts.figures}</Text><Text size="xs" c="dimmed" ml="auto">{texts.cursor(state.cursor)}</Text><CloseButton size={24} aria-label={texts.hideDetails} onClick={onClose} /></Group>
      <Figures run={state.conversation.run} isComing={isComing} />
      <Tabs value={tab} onChange={(value) => onTab(value ?? "events")} keepMounted={false} style={{ display: "flex", flexDirection: "column", flex: 1, minHeight: 0 }}>
        <Tabs.List>
          <Tabs.Tab value="waterfall">{texts.waterfall}</Tabs.Tab>
          <Tabs.Tab value="requests">{texts.requests}</Tabs.Tab>
          <Tabs.Tab value="events">{texts.events} ({formatCount(state.rawCount)})</Tabs.Tab>
          <Tabs.Tab value="state">{texts.state}</Tabs.Tab>
        </Tabs.List>
        {RUN_TABS.map((it) => <Tabs.Panel key={it} value={it} className={classes.sideScroll} tabIndex={0}>{runId === undefined && isComing ? <Box p="sm"><Loading rows={4} /></Box> : <RunTab key={runId} runId={runId} view={it} />}</Tabs.Panel>)}
        <Tabs.Panel value="events" style={{ flex: 1, minHeight: 0, display: tab === "events" ? "flex" : undefined, flexDirection: "column" }}><RawEvents events={session.rawEvents()} count={state.rawCount} /></Tabs.Panel>
        <Tabs.Panel value="state" p="sm" style={{ overflow: "auto" }}>{state.conversation.state === undefined ? <Text size="sm" c="dimmed">{texts.noEvents}</Text> : <JsonText value={state.conversation.state} maxHeight="none" />}</Tabs.Panel>
      </Tabs>
    </aside>
  );
}
