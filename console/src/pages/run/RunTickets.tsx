/** The decisions that a run waits for, to be made here. */
import { Divider, Group, Paper, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { isForPerson } from "../../api/openTickets";
import { run as texts } from "../../texts/run";
import { Reading } from "../../ui/reading";
import { SafeJson, ShownText } from "../../ui/SafeText";
import { TicketArguments } from "../../ui/tickets/TicketArguments";
import { TicketDecision } from "../../ui/tickets/TicketDecision";
import { ticketsQuery, type Run, type Ticket } from "./queries";

/** A workflow asks a person: no tool gets arguments. */
const WORKFLOW_QUESTION = "workflow:approve";

function TicketLine({ ticket }: { ticket: Ticket }) {
  const { message } = ticket.suspension;
  return (
    <Stack gap="xs" role="group" aria-label={ticket.tool_name}>
      <Text size="sm" fw={600} ff="monospace"><ShownText text={ticket.tool_name} /></Text>
      {message === undefined || message === "" ? null : <Text size="sm" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}><ShownText text={message} /></Text>}
      {ticket.suspension.action !== WORKFLOW_QUESTION ? <TicketArguments ticket={ticket} maxHeight={320} /> : ticket.suspension.parameters == null ? null : <SafeJson value={ticket.suspension.parameters} label={texts.asked} maxHeight={320} mustRead={ticket.ticket_id} />}
      <TicketDecision ticket={ticket} />
    </Stack>
  );
}

export function RunTickets({ run }: { run: Run }) {
  const { data: tickets = [] } = useQuery(ticketsQuery(run.run_id, run.status === "waiting"));
  // An event or a deadline decides the others.
  const open = tickets.filter((it) => it.status === "open" && isForPerson(it));
  if (run.status !== "waiting" || open.length === 0) return null;
  return (
    <Paper withBorder p="sm" mb="md" component="section" aria-label={texts.waitsFor(open.length)} bg="var(--aw-surface)">
      <Stack gap="sm">
        <Group justify="space-between"><Text size="sm" fw={500}>{texts.waitsFor(open.length)}</Text><Link to="/approvals">{texts.allApprovals}</Link></Group>
        {open.map((it, index) => <Stack key={it.ticket_id} gap="sm">{index === 0 ? null : <Divider />}<Reading><TicketLine ticket={it} /></Reading></Stack>)}
      </Stack>
    </Paper>
  );
}
