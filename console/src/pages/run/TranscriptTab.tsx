/** The messages of a run, with its input, calls and results. What agents wrote is shown as text, never as markup. */
import { Badge, Button, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";

import type { Schemas } from "../../api/client";
import { run as texts } from "../../texts/run";
import { Age, CopyIcon, JsonText } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import { messagesQuery } from "./queries";
import classes from "./run.module.css";
import type { TabProps } from "./RunPage";

type Stored = Schemas["MessageRecord"];
const TEXT_CHARS = 1_500;

function LongText({ text }: { text: string }) {
  const [isWhole, setIsWhole] = useState(false);
  const isLong = text.length > TEXT_CHARS;
  return (
    <>
      <p className={classes.text}>{isLong && !isWhole ? `${text.slice(0, TEXT_CHARS)}…` : text}</p>
      {isLong ? <Button variant="subtle" onClick={() => setIsWhole(!isWhole)}>{isWhole ? texts.transcript.less : texts.transcript.more}</Button> : null}
    </>
  );
}

function Block({ block }: { block: unknown }) {
  const { type, text, thinking } = block as { type?: string; text?: unknown; thinking?: unknown };
  if (typeof text === "string") return <LongText text={text} />;
  if (typeof thinking === "string") return <Text component="div" size="sm" c="dimmed" fs="italic"><LongText text={thinking} /></Text>;
  return <JsonText value={type === undefined ? block : { ...(block as object) }} maxHeight={200} />;
}

function StoredMessage({ stored, isChosen }: { stored: Stored; isChosen: boolean }) {
  const { message } = stored;
  const step = stored.step_index == null ? null : stored.step_index + 1;
  return (
    <div className={classes.message} data-role={message.role} data-chosen={isChosen || undefined}>
      <Group gap={8} mb={2}>
        <Text size="sm" fw={600}>{message.role}</Text>
        {message.tool_call_id == null ? null : <Text size="xs" c="dimmed">{texts.transcript.resultOf(message.tool_call_id)}</Text>}
        {step === null ? null : <Text size="xs" c="dimmed">{texts.transcript.step(step)}</Text>}
        {message.visibility === "internal" ? <Badge variant="default">{texts.transcript.internal}</Badge> : null}
        <Group gap={4} ml="auto"><Age at={stored.created_at} /><CopyIcon value={stored.message_id} label={`Copy ${stored.message_id}`} /></Group>
      </Group>
      {(message.content ?? []).map((block, index) => <Block key={index} block={block} />)}
      {(message.tool_calls ?? []).map((call) => (
        <div key={call.id}>
          <Text size="sm" mt={4}><Text span c="dimmed">{texts.transcript.call}</Text> <Text span fw={600}>{call.name}</Text> <Text span size="xs" c="dimmed">{call.id}</Text></Text>
          <JsonText value={call.arguments ?? null} maxHeight={200} />
        </div>
      ))}
    </div>
  );
}

export function TranscriptTab({ run, search }: TabProps) {
  const { data, error, refetch } = useQuery(messagesQuery(run));
  const scroller = useRef<HTMLDivElement>(null);
  const messages = data ?? [];
  const virtual = useVirtualizer({ count: messages.length, getScrollElement: () => scroller.current, estimateSize: () => 90, overscan: 4, getItemKey: (index) => messages[index]?.message_id ?? index });
  const step = search.step === undefined ? null : Number(search.step);
  const isLoaded = data !== undefined;
  useEffect(() => {
    const index = messages.findIndex((it) => step !== null && it.step_index === step - 1);
    if (index >= 0) virtual.scrollToIndex(index, { align: "start" });
  }, [step, isLoaded]);
  if (error !== null && data === undefined) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Loading />;
  if (messages.length === 0) return <Empty title={texts.transcript.empty} />;
  return (
    <div ref={scroller} tabIndex={0} role="region" aria-label={texts.transcript.label} style={{ maxHeight: "calc(100vh - 280px)", minHeight: 240, overflow: "auto" }}>
      <div style={{ position: "relative", height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const stored = messages[item.index];
          if (stored === undefined) return null;
          return (
            <div key={item.key} data-index={item.index} ref={virtual.measureElement} style={{ position: "absolute", top: 0, left: 0, right: 0, paddingBottom: 12, transform: `translateY(${item.start}px)` }}>
              <StoredMessage stored={stored} isChosen={step !== null && stored.step_index === step - 1} />
            </div>
          );
        })}
      </div>
    </div>
  );
}
