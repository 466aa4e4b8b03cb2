/** Asks once before calls are decided: all of them, whole, with what will happen. */
import { Alert, Button, Group, Modal, Stack, Text, Textarea } from "@mantine/core";
import { useState } from "react";

import type { Schemas } from "../../api/client";
import { approvals as texts } from "../../texts/approvals";
import { ui } from "../../texts/ui";
import { noteDone, noteError } from "../../ui/notices";
import { SafeJson, ShownText } from "../../ui/SafeText";
import { takesYes, type InboxTicket } from "./inbox";
import { decideTickets } from "./queries";

export type DialogAction = { action: "resume" | "cancel"; tickets: readonly InboxTicket[] };
type Props = { asked: DialogAction | null; onClose: () => void; onDecided: (ids: ReadonlySet<string>) => void };

function CallPreview({ ticket }: { ticket: InboxTicket }) {
  return (
    <div>
      <Group gap={6} mb={4}>
        <Text span size="sm" fw={600} ff="monospace"><ShownText text={ticket.tool_name} /></Text>
        <Text span size="xs" c="dimmed">{ticket.agentId ?? ""}</Text>
      </Group>
      <SafeJson value={ticket.arguments ?? null} label={`${texts.arguments}: ${ticket.tool_name} ${ticket.ticket_id}`} maxHeight="none" />
    </div>
  );
}

function Refusals({ receipts, tickets }: { receipts: readonly Schemas["BatchReceipt"][]; tickets: readonly InboxTicket[] }) {
  return (
    <Alert color="red" title={texts.refusedTitle} role="alert">
      {receipts.map((it) => (
        <Text key={it.id} size="sm">{tickets.find((ticket) => ticket.ticket_id === it.id)?.tool_name ?? it.id}: {it.error ?? it.status}</Text>
      ))}
    </Alert>
  );
}

function DialogBody({ asked, onClose, onDecided }: Props & { asked: DialogAction }) {
  const [reason, setReason] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const [refused, setRefused] = useState<readonly Schemas["BatchReceipt"][]>([]);
  const isApproval = asked.action === "resume";
  const decided = isApproval ? asked.tickets.filter(takesYes) : asked.tickets;
  const leftOut = asked.tickets.length - decided.length;

  const send = async () => {
    setIsBusy(true);
    try {
      const receipts = await decideTickets(decided, asked.action, reason);
      const bad = receipts.filter((it) => it.status === "refused");
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
        {decided.map((it) => <CallPreview key={it.ticket_id} ticket={it} />)}
      </Stack>
      {leftOut > 0 ? <Text size="sm" fw={600}>{texts.leftOut(leftOut)}</Text> : null}
      <Textarea label={texts.reason} description={isApproval ? undefined : texts.reasonHelp} value={reason} autosize maxRows={4} data-autofocus={isApproval ? undefined : true} onChange={(event) => setReason(event.currentTarget.value)} />
      <Group justify="flex-end" gap="xs">
        <Button onClick={onClose}>{ui.cancel}</Button>
        <Button variant="filled" color={isApproval ? undefined : "red"} data-autofocus={isApproval ? true : undefined} loading={isBusy} disabled={decided.length === 0 || refused.length > 0} onClick={() => void send()}>
          {isApproval ? texts.approve : texts.deny}
        </Button>
      </Group>
    </Stack>
  );
}

export function DecideDialog({ asked, onClose, onDecided }: Props) {
  return (
    <Modal opened={asked !== null} onClose={onClose} size="lg" title={asked === null ? "" : texts.dialogTitle[asked.action](asked.tickets.length)} closeButtonProps={{ "aria-label": ui.close }}>
      {asked === null ? null : <DialogBody asked={asked} onClose={onClose} onDecided={onDecided} />}
    </Modal>
  );
}
