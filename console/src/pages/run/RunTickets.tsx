/** The decisions that a run waits for, to be made here. */
import { Button, Code, Group, Paper, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { useMay } from "../../api/caller";
import { api, need } from "../../api/client";
import { refreshKinds } from "../../api/queries";
import { run as texts } from "../../texts/run";
import { noteDone, noteError } from "../../ui/notices";
import { ticketsQuery, type Run, type Ticket } from "./queries";

type Decision = { action: "resume" | "cancel"; payload: unknown; done: string };
const ARGUMENT_CHARS = 400;

function TicketLine({ ticket }: { ticket: Ticket }) {
  const may = useMay();
  const [answer, setAnswer] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const decide = async ({ action, payload, done }: Decision) => {
    setIsBusy(true);
    try {
      const body = { action, ticket_id: ticket.ticket_id, payload, arguments_hash: ticket.arguments_hash, arguments: null, decision_id: null, reason: null, remember: null, tool_call_id: null };
      await need(api.POST("/v1/runs/{run_id}/decision", { params: { path: { run_id: ticket.run_id } }, body }));
      noteDone(done);
      await refreshKinds("ticket", "run", "thread");
    } catch (error) {
      noteError(error);
    } finally {
      setIsBusy(false);
    }
  };
  const isAllowed = may("decide");
  const reason = isAllowed ? undefined : texts.needs("decide");
  const shared = { disabled: !isAllowed, loading: isBusy, title: reason };
  const shown = JSON.stringify(ticket.arguments) ?? "";
  return (
    <Group gap="sm" align="center" wrap="wrap">
      <Text size="sm" fw={600}>{ticket.tool_name}</Text>
      <Code style={{ flex: "1 1 200px", overflowWrap: "anywhere" }}>{shown.length > ARGUMENT_CHARS ? `${shown.slice(0, ARGUMENT_CHARS)}…` : shown}</Code>
      {ticket.asks === "answer" ? (
        <Group gap={6} component="form" onSubmit={(event: React.FormEvent) => { event.preventDefault(); void decide({ action: "resume", payload: answer, done: texts.answered }); }}>
          <TextInput aria-label={texts.answer} placeholder={ticket.suspension.message || texts.answer} value={answer} onChange={(event) => setAnswer(event.currentTarget.value)} w={220} />
          <Button type="submit" variant="filled" {...shared}>{texts.send}</Button>
        </Group>
      ) : <Button variant="filled" {...shared} onClick={() => void decide({ action: "resume", payload: true, done: texts.approved })}>{texts.approve}</Button>}
      <Button {...shared} onClick={() => void decide({ action: "cancel", payload: null, done: texts.denied })}>{texts.deny}</Button>
    </Group>
  );
}

export function RunTickets({ run }: { run: Run }) {
  const { data: tickets = [] } = useQuery(ticketsQuery(run.run_id, run.status === "waiting"));
  const open = tickets.filter((it) => it.status === "open");
  if (run.status !== "waiting" || open.length === 0) return null;
  return (
    <Paper withBorder p="sm" mb="md" component="section" aria-label={texts.waitsFor(open.length)} bg="var(--aw-surface)">
      <Stack gap="xs">
        <Group justify="space-between"><Text size="sm" fw={500}>{texts.waitsFor(open.length)}</Text><Link to="/approvals">{texts.allApprovals}</Link></Group>
        {open.map((it) => <TicketLine key={it.ticket_id} ticket={it} />)}
      </Stack>
    </Paper>
  );
}
