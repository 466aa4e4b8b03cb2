/** One conversation with its agent, its questions, its field and its details. */
import { ActionIcon, Badge, Box, Button, Group, Select, Text, Textarea, Tooltip } from "@mantine/core";
import { IconLayoutSidebarRight } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { memo, useCallback, useEffect, useMemo, useRef, useState } from "react";

import { useMay } from "../../api/caller";
import { recentPublicationsQuery } from "../../api/config";
import { agentsQuery, queryClient } from "../../api/queries";
import { useKeys } from "../../keys";
import { chat as texts } from "../../texts/chat";
import { ui } from "../../texts/ui";
import { FormModal } from "../../ui/FormDialogs";
import { noteDone, noteError } from "../../ui/notices";
import { CopyableId } from "../../ui/parts";
import { Failure, Loading } from "../../ui/states";
import { readTyped, writeTyped } from "../../ui/typed";
import classes from "./Chat.module.css";
import { Composer } from "./Composer";
import { ContextField } from "./ContextField";
import { Conversation } from "./Conversation";
import type { PendingTurn, UserTurn } from "./fold";
import { ModelChoice } from "./ModelChoice";
import { contextSchemaQuery, forkBefore, nameThread } from "./requests";
import { contextPlace, takeContext } from "./runContext";
import { Samples } from "./Samples";
import { SidePanel } from "./SidePanel";
import { readText } from "./stored";
import { ThreadPicker } from "./ThreadPicker";
import type { Part } from "./types";
import { useEdits, useSession, useTickets } from "./useSession";

export type PaneAddress = { threadId: string | undefined; agent: string | undefined; publication: string | undefined; model: string | undefined };
type Props = { address: PaneAddress; label: string; isFirst: boolean; side: string | undefined; onAddress: (change: Partial<PaneAddress>) => void; onSide: (tab: string | undefined) => void };

const LINK_COLOR = { live: "teal", "catching up": "blue", cut: "red", none: "gray" } as const;

function AgentChoice({ address, agent, onAddress }: { address: PaneAddress; agent: string; onAddress: Props["onAddress"] }) {
  const may = useMay();
  const { data: agents = [] } = useQuery(agentsQuery);
  // The agent of an old conversation may be gone, and is still the one that spoke.
  const ids = [...new Set([...agents.map((it) => it.id), ...(agent === "" ? [] : [agent])])];
  const { data: publications = [] } = useQuery({ ...recentPublicationsQuery, enabled: may("config") });
  return (
    <>
      <Select aria-label={texts.agent} data={ids} value={agent === "" ? null : agent} onChange={(value) => onAddress({ agent: value ?? undefined, model: undefined })} searchable allowDeselect={false} w={160} />
      {publications.length === 0 ? null : (
        <Select
          aria-label={texts.publication} w={130} value={address.publication ?? "live"} allowDeselect={false}
          data={[{ value: "live", label: texts.live }, ...publications.map((it) => ({ value: String(it.publication), label: `#${it.publication}` }))]}
          onChange={(value) => onAddress({ publication: value === null || value === "live" ? undefined : value })}
        />
      )}
    </>
  );
}

function EditDialog({ turn, onClose, onResend }: { turn: UserTurn | null; onClose: () => void; onResend: (text: string) => void }) {
  const [text, setText] = useState("");
  useEffect(() => setText(turn === null ? "" : readText(turn.parts)), [turn]);
  return (
    <FormModal opened={turn !== null} onClose={onClose} title={texts.editTitle} closeButtonProps={{ "aria-label": ui.close }}>
      <Text size="sm" c="dimmed" mb="sm">{texts.editHelp}</Text>
      <Textarea aria-label={texts.message} value={text} onChange={(event) => setText(event.currentTarget.value)} autosize minRows={3} maxRows={14} data-autofocus />
      <Group justify="flex-end" gap="xs" mt="md">
        <Button onClick={onClose}>{ui.cancel}</Button>
        <Button variant="filled" disabled={text.trim() === ""} onClick={() => onResend(text)}>{texts.resend}</Button>
      </Group>
    </FormModal>
  );
}

type BarProps = Pick<Props, "address" | "isFirst" | "side" | "onAddress" | "onSide"> & { agent: string; publication: number | undefined; link: keyof typeof LINK_COLOR };

/** Drawn anew when something in it changes, not with every piece of an answer. */
const PaneBar = memo(function PaneBar({ address, isFirst, agent, publication, link, side, onAddress, onSide }: BarProps) {
  const { threadId, model } = address;
  return (
    <div className={classes.paneBar}>
      <AgentChoice address={address} agent={agent} onAddress={onAddress} />
      <ModelChoice agent={agent} publication={publication} model={model} onModel={(it) => onAddress({ model: it })} />
      <ContextField agent={agent} isFirst={isFirst} />
      <ThreadPicker onPick={(it) => onAddress({ threadId: it, agent: undefined, publication: undefined, model: undefined })} />
      {threadId === undefined ? null : <CopyableId id={threadId} chars={16} />}
      <Group gap="xs" ml="auto">
        {link === "none" ? null : <Tooltip label={texts.linkHelp[link]}><Badge variant="outline" color={LINK_COLOR[link]} c="var(--mantine-color-text)" role="status" data-link={link}>{texts.link[link]}</Badge></Tooltip>}
        <Tooltip label={side === undefined ? texts.details : texts.hideDetails}>
          <ActionIcon size={28} aria-label={texts.details} aria-expanded={side !== undefined} onClick={() => onSide(side === undefined ? "events" : undefined)}><IconLayoutSidebarRight size={16} /></ActionIcon>
        </Tooltip>
      </Group>
    </div>
  );
});

export function Pane({ address, label, isFirst, side, onAddress, onSide }: Props) {
  const { threadId, model } = address;
  const { session, state } = useSession(threadId);
  const tickets = useTickets(threadId);
  const edits = useEdits(threadId);
  const { data: agents = [] } = useQuery(agentsQuery);
  // What is typed belongs to its conversation; a new one has no name yet.
  const place = `chat.${threadId ?? (isFirst ? "new" : "new.second")}`;
  const [editing, setEditing] = useState<UserTurn | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const { conversation, link } = state;
  const agent = address.agent ?? conversation.run?.agentId ?? agents[0]?.id ?? "";
  const publication = address.publication === undefined ? undefined : Number(address.publication);
  const isBusy = conversation.run?.state === "running" || conversation.pending.some((it) => it.isAccepted);
  const isWaiting = conversation.run?.state === "waiting";

  const shown = useRef<typeof session | null>(null);
  useEffect(() => {
    shown.current = session;
    return () => { shown.current = null; };
  }, [session]);
  const send = useCallback(
    async (parts: readonly Part[], mode: PendingTurn["mode"]) => {
      // A message into a run that executes starts none. A schema that is not here yet is the server's to hold it to.
      const context = mode === "steer" ? undefined : await takeContext(readTyped(contextPlace(isFirst), ""), queryClient.getQueryData(contextSchemaQuery(agent).queryKey) ?? null);
      await session.send({ agentId: agent, parts, publication, model, context, mode });
      if (threadId !== undefined) return;
      // A person who has left meanwhile stays where they are.
      if (shown.current === session) onAddress({ threadId: session.threadId, agent });
      // A conversation without a title works as well.
      nameThread(session.threadId, readText(parts)).catch(() => undefined);
    },
    [session, agent, publication, model, threadId, isFirst, onAddress],
  );
  const stop = useCallback(
    (isInterrupt: boolean) => {
      session.stop(isInterrupt).then((receipt) => noteDone(texts.stopReceipt(receipt.status)), noteError);
    },
    [session],
  );
  const resend = async (text: string) => {
    if (editing === null || threadId === undefined) return;
    try {
      const forked = await forkBefore(threadId, editing.id);
      const others = editing.parts.filter((it) => it.type !== "text");
      resending.set(forked, [{ type: "text", text }, ...others]);
      setEditing(null);
      onAddress({ threadId: forked, agent });
    } catch (error) {
      noteError(error);
    }
  };
  useResend(threadId, state.isLoading, send, place);
  const actions = useMemo(() => ({
    onEdit: setEditing,
    onAction: (text: string) => { writeTyped(place, text); noteDone(texts.actionTaken); field.current?.focus(); },
  }), [place]);
  useKeys(useMemo(() => (isFirst ? { stop: () => { if (isBusy || isWaiting) stop(false); } } : {}), [isFirst, isBusy, isWaiting, stop]));

  return (
    <section className={classes.pane} data-side={side !== undefined} aria-label={label}>
      <div className={classes.column}>
        <PaneBar address={address} isFirst={isFirst} agent={agent} publication={publication} link={link} side={side} onAddress={onAddress} onSide={onSide} />
        {state.failure === null ? null : <Box p="md"><Failure error={state.failure} onRetry={() => void session.open()} /></Box>}
        {state.isLoading && conversation.turns.length === 0 ? <Box p="md"><Loading rows={4} /></Box> : (
          <Conversation
            conversation={conversation} tickets={tickets} edits={edits} actions={actions} label={texts.conversation(isFirst ? "" : texts.second)}
            hasEarlier={state.hasEarlier} onEarlier={() => void session.loadEarlier().catch(noteError)}
            empty={<Samples agents={agents.map((it) => it.id)} onPick={(sample) => { onAddress({ agent: sample.agent, model: undefined }); writeTyped(place, sample.text); field.current?.focus(); }} />}
          />
        )}
        <Composer agent={agent} place={place} isBusy={isBusy} isWaiting={isWaiting} field={field} onSend={send} onStop={stop} />
      </div>
      {side === undefined ? null : <SidePanel session={session} state={state} tab={side} onTab={onSide} onClose={() => onSide(undefined)} />}
      <EditDialog turn={editing} onClose={() => setEditing(null)} onResend={(text) => void resend(text)} />
    </section>
  );
}

/** What is to be sent into a fork once it is on the screen. */
const resending = new Map<string, readonly Part[]>();

function useResend(threadId: string | undefined, isLoading: boolean, send: (parts: readonly Part[], mode: PendingTurn["mode"]) => Promise<void>, place: string): void {
  useEffect(() => {
    const parts = threadId === undefined || isLoading ? undefined : resending.get(threadId);
    if (parts === undefined || threadId === undefined) return;
    resending.delete(threadId);
    send(parts, "queue").catch((error: unknown) => {
      // What the server refuses stands in the field of the fork, to be sent again.
      const now = readTyped(place, "");
      writeTyped(place, [readText(parts), now].filter((it) => it.trim() !== "").join("\n"));
      noteError(error);
    });
  }, [threadId, isLoading, send, place]);
}
