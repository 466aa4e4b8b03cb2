/** One turn of a conversation. Memoised: a turn that did not change is not drawn again. */
import { ActionIcon, Box, Group, Stack, Text, Tooltip } from "@mantine/core";
import { IconPencil, IconRefreshAlert } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { memo } from "react";

import { chat as texts } from "../../texts/chat";
import { formatBytes, formatTokens } from "../../ui/format";
import { CopyIcon, Status } from "../../ui/parts";
import { showHidden } from "../../ui/hostileText";
import { CallView } from "./CallView";
import classes from "./Chat.module.css";
import type { AssistantTurn, EndTurn, PendingTurn, Turn, UserTurn } from "./fold";
import { keyOfCall, type Interface } from "./generated/interfaces";
import { RichText } from "./RichText";
import { readText } from "./stored";
import { TicketCard } from "./TicketCard";
import type { Part, Ticket } from "./types";
import { keyOfEdit } from "./useSession";

export type TurnActions = { onEdit: (turn: UserTurn) => void; onAction: (text: string) => void };
type Props = { turn: Turn | PendingTurn; isOpen: boolean; tickets: readonly Ticket[]; edits: ReadonlyMap<string, unknown>; interfaces: ReadonlyMap<string, Interface>; actions: TurnActions };

const IMAGE_TYPE = /^image\/(png|jpeg|gif|webp)$/;

function Attachment({ part }: { part: Exclude<Part, { type: "text" | "thinking" }> }) {
  const name = part.type === "document" ? (part.title ?? texts.attachment.document) : texts.attachment[part.type];
  if (part.source.type === "base64" && part.type === "image" && IMAGE_TYPE.test(part.source.media_type)) {
    return <img className={classes.picture} alt={name} src={`data:${part.source.media_type};base64,${part.source.data}`} />;
  }
  const about = part.source.type === "base64" ? `${part.source.media_type}, ${formatBytes(part.source.data.length * 0.75)}` : part.source.url;
  return <Text size="xs" ff="monospace" c="dimmed" style={{ overflowWrap: "anywhere" }}>[{showHidden(name)}: {showHidden(about)}]</Text>;
}

function UserShown({ turn, actions }: { turn: UserTurn | PendingTurn; actions: TurnActions }) {
  const text = readText(turn.parts);
  const pending = "mode" in turn ? (turn.isAccepted ? texts.pending[turn.mode] : texts.pending.sending) : null;
  return (
    <Box className={classes.user} data-turn="user">
      <Group justify="space-between" gap="xs" wrap="nowrap">
        <Text size="xs" fw={600}>{turn.isSystem ? texts.system : texts.you}{pending === null ? null : <Text span size="xs" c="dimmed"> · {pending}</Text>}</Text>
        <Group gap={6} className={classes.tools}>
          <CopyIcon value={text} label={texts.copyText} />
          {turn.isSystem || pending !== null ? null : <Tooltip label={texts.edit}><ActionIcon size={24} aria-label={texts.edit} onClick={() => actions.onEdit(turn)}><IconPencil size={14} /></ActionIcon></Tooltip>}
        </Group>
      </Group>
      <Stack gap={4}>
        {text === "" ? null : <Text size="sm" className={classes.said} dir="auto">{showHidden(text)}</Text>}
        {turn.parts.map((part, index) => (part.type === "text" || part.type === "thinking" ? null : <Attachment key={index} part={part} />))}
      </Stack>
    </Box>
  );
}

function AssistantShown({ turn, isOpen, tickets, edits, interfaces, actions }: Omit<Props, "turn"> & { turn: AssistantTurn }) {
  const used = turn.usage === null ? null : (turn.usage.prompt_tokens ?? 0) + (turn.usage.completion_tokens ?? 0);
  return (
    <Box className={classes.assistant} data-turn="assistant">
      <Group justify="space-between" gap="xs" wrap="nowrap">
        <Text size="xs" fw={600}>{turn.agentId ?? ""}</Text>
        {used === null ? null : <Text size="xs" c="dimmed" className={classes.tools}>{turn.model} · {formatTokens(used)} tokens</Text>}
      </Group>
      <Stack gap={8}>
        {turn.resets.map((it, index) => <Group key={index} gap={6}><IconRefreshAlert size={14} aria-hidden /><Text size="xs" c="dimmed">{texts.reset(showHidden(it))}</Text></Group>)}
        {turn.blocks.map((block, index) => {
          if (block.kind === "text") return <RichText key={index} text={block.text} isOpen={isOpen} />;
          if (block.kind === "reasoning") {
            return <details key={index} className={classes.reasoning}><summary>{texts.reasoning}</summary><RichText text={block.text} isOpen={isOpen} /></details>;
          }
          const call = turn.calls.find((it) => it.id === block.callId);
          if (call === undefined) return null;
          const ticket = tickets.find((it) => it.tool_call_id === call.id && it.run_id === turn.runId);
          return (
            <Stack key={index} gap={6}>
              <CallView call={ticket !== undefined && call.state === "running" ? { ...call, state: "suspended" } : call} edited={edits.get(keyOfEdit(turn.runId, call.id))} shown={interfaces.get(keyOfCall(turn.id, call.id))} onAction={actions.onAction} />
              {ticket === undefined ? null : <TicketCard key={ticket.ticket_id} ticket={ticket} />}
            </Stack>
          );
        })}
        {isOpen && turn.blocks.length === 0 ? <Text size="sm" c="dimmed" className={classes.waiting}>…</Text> : null}
      </Stack>
    </Box>
  );
}

const END_STATUS: Record<string, string> = { natural_end: "done", error: "failed", blocked: "failed" };

function describeEnd({ type, value, cause, code }: EndTurn["termination"]): string {
  const detail = typeof value === "string" ? value : value !== null && typeof value === "object" ? JSON.stringify(value) : (cause ?? code ?? "");
  const name = texts.ends[type as keyof typeof texts.ends] ?? type;
  return type === "natural_end" || detail === "" ? name : `${name}: ${showHidden(detail).slice(0, 2_000)}`;
}

function EndShown({ turn }: { turn: EndTurn }) {
  const status = END_STATUS[turn.termination.type] ?? "cancelled";
  return (
    <Group gap="sm" className={classes.end} data-turn="end" data-end={turn.termination.type} wrap="nowrap" align="flex-start">
      <Status value={status} label={describeEnd(turn.termination)} />
      <Text span size="xs"><Link to="/runs/$runId" params={{ runId: turn.runId }}>{texts.runPage}</Link></Text>
    </Group>
  );
}

export const TurnView = memo(function TurnView({ turn, ...rest }: Props) {
  switch (turn.kind) {
    case "user":
      return <UserShown turn={turn} actions={rest.actions} />;
    case "assistant":
      return <AssistantShown turn={turn} {...rest} />;
    case "end":
      return <EndShown turn={turn} />;
    case "error":
      return <Box className={classes.problem} role="alert">{showHidden(turn.message)}{turn.code === null ? "" : ` (${turn.code})`}</Box>;
  }
});
