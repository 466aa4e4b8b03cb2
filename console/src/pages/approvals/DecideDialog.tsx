/** Asks once before calls are decided: all of them, whole, with what will happen. */
import { Alert, Button, Group, Stack, Text, Textarea } from "@mantine/core";
import { useState } from "react";

import type { Schemas } from "../../api/client";
import { decideTicket } from "../../api/decisions";
import { describeError } from "../../api/errors";
import { approvals as texts } from "../../texts/approvals";
import { ui } from "../../texts/ui";
import { FormModal } from "../../ui/FormDialogs";
import { DANGER_TEXT } from "../../ui/danger";
import { noteDone, noteError } from "../../ui/notices";
import { Reading, useReading } from "../../ui/reading";
import { SafeJson, ShownText } from "../../ui/SafeText";
import { getOwn } from "../../ui/schema/model";
import { useIsSettling } from "../../ui/settling";
import { ReadFirst } from "../../ui/tickets/ReadFirst";
import { readRule } from "../../ui/tickets/rule";
import { dropWork, isChanged, isPrepared, makeDecision, readArguments, readWork } from "../../ui/tickets/work";
import { takesYes, type InboxTicket } from "./inbox";
import { decideTickets } from "./queries";

export type DialogAction = { action: "resume" | "cancel"; tickets: readonly InboxTicket[] };
type Props = { asked: DialogAction | null; onClose: () => void; onDecided: (ids: ReadonlySet<string>) => void };

function CallPreview({ ticket, isApproval }: { ticket: InboxTicket; isApproval: boolean }) {
  const { edit, scope } = readWork(ticket);
  const { pattern } = readRule(ticket);
  const isEdited = isApproval && isChanged(ticket, edit);
  return (
    <div>
      <Group gap={6} mb={4}>
        <Text span size="sm" fw={600} ff="monospace"><ShownText text={ticket.tool_name} /></Text>
        <Text span size="xs" c="dimmed">{ticket.agentId ?? ""}</Text>
        {isEdited ? <Text span size="xs" fw={600}>{texts.withEdit}</Text> : null}
      </Group>
      <SafeJson value={readArguments(ticket, isEdited ? edit : null)} label={`${texts.arguments}: ${ticket.tool_name} ${ticket.ticket_id}`} maxHeight="none" mustRead={isApproval ? ticket.ticket_id : undefined} />
      {scope === "once" ? null : <Text size="xs" fw={600}>{texts.remembered(getOwn(texts.scopes, scope) ?? scope)} {pattern === null ? "" : texts.rememberHelp(pattern)}</Text>}
    </div>
  );
}

function Refusals({ receipts, tickets }: { receipts: readonly Receipt[]; tickets: readonly InboxTicket[] }) {
  return (
    <Alert color="red" title={texts.refusedTitle} role="alert">
      {receipts.map((it) => (
        <Text key={it.id} size="sm">{tickets.find((ticket) => ticket.ticket_id === it.id)?.tool_name ?? it.id}: {it.error ?? it.status}</Text>
      ))}
    </Alert>
  );
}

type Receipt = Pick<Schemas["BatchReceipt"], "id" | "status" | "error">;

/** Decides on a ticket by itself: one that was edited, or whose answer is remembered. A batch takes the calls as they are, and each once. */
async function decidePrepared(ticket: InboxTicket, action: DialogAction["action"], reason: string): Promise<Receipt> {
  try {
    await decideTicket(ticket, { ...makeDecision(ticket, readWork(ticket), action), reason });
    return { id: ticket.ticket_id, status: "accepted", error: null };
  } catch (error) {
    return { id: ticket.ticket_id, status: "refused", error: describeError(error) };
  }
}

async function decideAll(tickets: readonly InboxTicket[], action: DialogAction["action"], reason: string): Promise<Receipt[]> {
  const prepared = tickets.filter((it) => isPrepared(it, action));
  const others = tickets.filter((it) => !prepared.includes(it));
  const receipts: Receipt[] = others.length === 0 ? [] : [...(await decideTickets(others, action, reason))];
  for (const ticket of prepared) receipts.push(await decidePrepared(ticket, action, reason));
  return receipts;
}

function DialogBody({ asked, onClose, onDecided }: Props & { asked: DialogAction }) {
  const [only] = asked.tickets;
  const [reason, setReason] = useState(() => (asked.tickets.length === 1 && only !== undefined ? readWork(only).reason : ""));
  const isSettling = useIsSettling();
  const [isBusy, setIsBusy] = useState(false);
  const [refused, setRefused] = useState<readonly Receipt[]>([]);
  const isApproval = asked.action === "resume";
  const { isRead } = useReading();
  const decided = isApproval ? asked.tickets.filter(takesYes) : asked.tickets;
  const leftOut = asked.tickets.length - decided.length;
  const isBad = isApproval && decided.some((it) => readWork(it).edit?.isBad === true);

  const send = async () => {
    setIsBusy(true);
    try {
      const receipts = await decideAll(decided, asked.action, reason);
      const bad = receipts.filter((it) => it.status === "refused");
      for (const it of decided) if (!bad.some((receipt) => receipt.id === it.ticket_id)) dropWork(it);
      onDecided(new Set(receipts.filter((it) => it.status !== "refused").map((it) => it.id)));
      noteDone(texts.receipts(receipts.length - bad.length, bad.length));
      setRefused(bad);
      if (bad.length === 0) onClose();
    } catch (error) {
      noteError(error);
    } finally {
      setIsBusy(false);
    }
  };

  return (
    <Stack gap="sm">
      {refused.length > 0 ? <Refusals receipts={refused} tickets={asked.tickets} /> : null}
      <Text size="sm">{isApproval ? texts.dialogApprove(decided.length) : texts.dialogDeny(decided.length)}</Text>
      <Stack gap="sm" mah="50vh" style={{ overflow: "auto" }} tabIndex={0} role="region" aria-label={texts.callsRegion}>
        {decided.map((it) => <CallPreview key={it.ticket_id} ticket={it} isApproval={isApproval} />)}
      </Stack>
      {leftOut > 0 ? <Text size="sm" fw={600}>{texts.leftOut(leftOut)}</Text> : null}
      {isBad ? <Text size="sm" c={DANGER_TEXT} role="alert">{texts.notJson}</Text> : null}
      <Textarea label={texts.reason} description={isApproval ? undefined : texts.reasonHelp} value={reason} autosize maxRows={4} data-autofocus={isApproval ? undefined : true} onChange={(event) => setReason(event.currentTarget.value)} />
      <ReadFirst isFocused />
      <Group justify="flex-end" gap="xs">
        <Button onClick={onClose}>{ui.cancel}</Button>
        <Button variant="filled" color={isApproval ? undefined : "red"} data-autofocus={(isApproval && isRead) || undefined} loading={isBusy} disabled={decided.length === 0 || refused.length > 0 || isBad || isSettling || !isRead} onClick={() => void send()}>
          {isApproval ? texts.approve : texts.deny}
        </Button>
      </Group>
    </Stack>
  );
}

export function DecideDialog({ asked, onClose, onDecided }: Props) {
  return (
    <FormModal opened={asked !== null} onClose={onClose} size="lg" title={asked === null ? "" : texts.dialogTitle[asked.action](asked.tickets.length)} closeButtonProps={{ "aria-label": ui.close }}>
      {asked === null ? null : <Reading><DialogBody asked={asked} onClose={onClose} onDecided={onDecided} /></Reading>}
    </FormModal>
  );
}
