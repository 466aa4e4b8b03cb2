/** A conversation with the draft: it runs on a preview publication, on a thread of its own, and tools with effects ask first. */
import { ActionIcon, Group, Stack, Text, Textarea, Title, Tooltip } from "@mantine/core";
import { IconEraser, IconPlayerStop, IconSend, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { serverUrl } from "../../api/address";
import { useMay } from "../../api/caller";
import { api, need, send } from "../../api/client";
import type { Ticket } from "../../api/decisions";
import { createDraft, previewDraft } from "../../api/drafts";
import { describeError } from "../../api/errors";
import { writeExact } from "../../api/exactJson";
import { openStream, readFrames } from "../../api/frames";
import { agent as texts } from "../../texts/agent";
import { records } from "../../texts/records";
import { noteError } from "../../ui/notices";
import { Refusal } from "../../ui/Problems";
import { Reading } from "../../ui/reading";
import { ShownText } from "../../ui/SafeText";
import { TicketArguments } from "../../ui/tickets/TicketArguments";
import { TicketDecision } from "../../ui/tickets/TicketDecision";
import classes from "./AgentPage.module.css";
import { foldEvent, type Item, type RunEvent } from "./conversation";
import type { AgentEditor } from "./useAgentEditor";

type Place = { runId: string; threadId: string; cursor: string | null };

/** The conversation: what was said, and how to say more. */
function useConversation(agentId: string, editor: AgentEditor) {
  const [items, setItems] = useState<Item[]>([]);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [publication, setPublication] = useState<number | null>(null);
  const [place, setPlace] = useState<Place | null>(null);
  const at = useRef<Place | null>(null);
  const made = useRef<{ key: string; no: number } | null>(null);
  const stream = useRef<AbortController | null>(null);
  useEffect(() => () => stream.current?.abort(), []);

  const read = async (response: Response) => {
    for await (const frame of readFrames(response)) {
      const event = frame.data as RunEvent;
      if (event.event_type === "run_start") at.current = { runId: String(event.run_id), threadId: String(event.thread_id), cursor: null };
      if (at.current !== null && frame.id !== null) at.current = { ...at.current, cursor: frame.id };
      setPlace(at.current);
      setItems((now) => foldEvent(now, event));
      if (event.event_type === "run_finish") return;
    }
  };
  const act = async (work: (signal: AbortSignal) => Promise<void>) => {
    const control = new AbortController();
    stream.current = control;
    setBusy(true);
    setError(null);
    try {
      await work(control.signal);
    } catch (caught) {
      if (!control.signal.aborted) setError(caught);
    } finally {
      setBusy(false);
    }
  };
  const prepare = async (): Promise<number> => {
    // What is typed is part of what is tried; an unchanged agent is tried on an empty draft.
    const saved = await editor.flush();
    if (saved === null && editor.draft !== null) throw new Error(texts.states.refused());
    const draft = saved ?? (await createDraft(records.defaultDraftTitle(agentId)));
    const key = `${draft.id} ${draft.revision}`;
    if (made.current?.key !== key) made.current = { key, no: await previewDraft(draft.id) };
    setPublication(made.current.no);
    return made.current.no;
  };
  const say = (text: string) => act(async (signal) => {
    const no = await prepare();
    setItems((now) => [...now, { kind: "you", text }]);
    const body = JSON.stringify({ agent_id: agentId, publication: no, thread_id: at.current?.threadId, messages: [{ role: "user", content: text }] });
    await read(await send(new Request(`${serverUrl}/v1/runs`, { method: "POST", body, signal, headers: { "Content-Type": "application/json", Accept: "text/event-stream" } })));
  });
  /** Reads on after a decision. */
  const goOn = () => act(async (signal) => {
    const here = at.current;
    if (here === null) return;
    await read(await openStream(`/v1/runs/${here.runId}/events/stream`, here.cursor, signal));
  });
  const stop = () => {
    const here = at.current;
    if (here !== null) void need(api.POST("/v1/runs/{run_id}/cancel", { params: { path: { run_id: here.runId } } })).catch(noteError);
  };
  const clear = () => {
    stream.current?.abort();
    at.current = null;
    setPlace(null);
    setItems([]);
    setError(null);
  };
  return { items, isBusy, error, publication, place, say, goOn, stop, clear };
}

export function Preview({ agentId, editor, onClose }: { agentId: string; editor: AgentEditor; onClose: () => void }) {
  const talk = useConversation(agentId, editor);
  const [text, setText] = useState("");
  const may = useMay();
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => { void end.current?.scrollIntoView({ block: "nearest" }); }, [talk.items]);
  const isWaiting = talk.items.some((it) => it.kind === "call" && it.ticketId !== undefined);
  const tickets = useRunTickets(talk.place?.runId, isWaiting);
  const submit = () => {
    if (text.trim() === "" || talk.isBusy) return;
    void talk.say(text);
    setText("");
  };
  return (
    <section className={classes.preview} aria-label={texts.preview.title}>
      <Group className={classes.previewHead} justify="space-between" wrap="nowrap" gap="xs">
        <div><Title order={2}>{texts.preview.title}</Title><Text size="xs" c="dimmed">{talk.publication === null ? null : texts.preview.on(talk.publication)} {talk.place === null ? null : <Link to="/runs/$runId" params={{ runId: talk.place.runId }}>{texts.preview.openRun}</Link>}</Text></div>
        <Group gap={2} wrap="nowrap">
          <Tooltip label={texts.preview.clear}><ActionIcon aria-label={texts.preview.clear} onClick={talk.clear}><IconEraser size={16} /></ActionIcon></Tooltip>
          <Tooltip label={texts.preview.hide}><ActionIcon aria-label={texts.preview.hide} onClick={onClose}><IconX size={16} /></ActionIcon></Tooltip>
        </Group>
      </Group>
      <div className={classes.messages} tabIndex={0} role="log" aria-label={texts.preview.title} aria-live="off">
        {talk.items.length === 0 ? <Text size="sm" c="dimmed">{may("invoke") ? texts.preview.help : texts.preview.needsInvoke}</Text> : null}
        {talk.items.map((it, index) => <PreviewItem key={index} item={it} ticket={it.kind === "call" ? tickets.find((ticket) => ticket.ticket_id === it.ticketId) : undefined} onDecided={() => void talk.goOn()} />)}
        <Refusal error={talk.error} />
        <div ref={end} />
      </div>
      <Group className={classes.composer} gap="xs" align="flex-end" wrap="nowrap">
        <Textarea aria-label={texts.preview.label} placeholder={texts.preview.placeholder} autosize minRows={1} maxRows={6} flex={1} disabled={!may("invoke") || isWaiting} value={text} onChange={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => { if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) { event.preventDefault(); submit(); } }} />
        {talk.isBusy ? <ActionIcon variant="default" size={30} aria-label={texts.preview.stop} onClick={talk.stop}><IconPlayerStop size={16} /></ActionIcon>
          : <ActionIcon variant="filled" color="indigo" size={30} aria-label={texts.preview.send} disabled={text.trim() === "" || !may("invoke") || isWaiting} onClick={submit}><IconSend size={16} /></ActionIcon>}
      </Group>
    </section>
  );
}

/** The tickets of the run that is tried, whose arguments a person decides by. */
function useRunTickets(runId: string | undefined, isWaiting: boolean): readonly Ticket[] {
  const { data } = useQuery({
    queryKey: ["ticket", "run", runId],
    queryFn: async ({ signal }) => (await need(api.GET("/v1/runs/{run_id}/tickets", { params: { path: { run_id: runId ?? "" } }, signal }))).items,
    enabled: isWaiting && runId !== undefined,
    staleTime: 0,
  });
  return data ?? [];
}

function PreviewItem({ item, ticket, onDecided }: { item: Item; ticket: Ticket | undefined; onDecided: () => void }) {
  if (item.kind === "you" || item.kind === "agent") return <div className={classes.message} data-from={item.kind}>{item.text}</div>;
  if (item.kind === "error") return <Text size="sm" c="var(--mantine-color-error)" role="alert">{texts.preview.failed}: {describeError(new Error(item.text))}</Text>;
  return (
    <div className={classes.call}>
      <Text size="xs" fw={500}>{item.ticketId === undefined ? texts.preview.tool(item.name) : texts.preview.asks(item.name)}</Text>
      {item.arguments === undefined || item.ticketId !== undefined ? null : <Text size="xs" ff="monospace" c="dimmed"><ShownText text={writeExact(item.arguments) ?? ""} /></Text>}
      {item.result === undefined ? null : <Text size="xs" ff="monospace"><ShownText text={item.result.slice(0, 2_000)} /></Text>}
      {item.ticketId === undefined || ticket === undefined ? null : <Reading><Stack gap="xs" mt={6}><TicketArguments ticket={ticket} maxHeight={320} /><TicketDecision ticket={ticket} onDecided={onDecided} /></Stack></Reading>}
    </div>
  );
}
