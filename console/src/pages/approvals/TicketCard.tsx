/** The right side of the inbox: everything that a person needs to decide on one ticket. */
import { Box, Button, Group, List, Stack, Text, Title } from "@mantine/core";
import { IconArrowLeft, IconBraces } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { approvals as texts } from "../../texts/approvals";
import { ui } from "../../texts/ui";
import { MessageView } from "../../ui/MessageView";
import { JsonDrawer } from "../../ui/parts";
import { Reading } from "../../ui/reading";
import { ShownText } from "../../ui/SafeText";
import { Failure, Loading } from "../../ui/states";
import { runQuery } from "../../ui/tickets/queries";
import { TicketArguments } from "../../ui/tickets/TicketArguments";
import { TicketDecision } from "../../ui/tickets/TicketDecision";
import classes from "./Approvals.module.css";
import type { InboxTicket } from "./inbox";
import { lastMessagesQuery } from "./queries";
import { TicketFacts } from "./TicketFacts";

function LastMessages({ threadId }: { threadId: string }) {
  const list = useQuery(lastMessagesQuery(threadId));
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Title order={3}>{texts.conversation}</Title>
        <Link to="/threads/$threadId" params={{ threadId }}>{texts.openThread}</Link>
      </Group>
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.isPending ? <Loading rows={3} /> : list.data.map((it) => <MessageView key={it.message_id} record={it} />)}
    </Stack>
  );
}

function Effects({ ticket }: { ticket: InboxTicket }) {
  const means = ticket.asks === "answer" ? texts.answerMeans : texts.approveMeans;
  return (
    <Box>
      <Title order={3} mb={4}>{texts.whatHappens}</Title>
      <List size="sm" spacing={2}>
        <List.Item>{means[ticket.resume_mode]}</List.Item>
        <List.Item>{texts.denyMeans}</List.Item>
      </List>
    </Box>
  );
}

type Props = { ticket: InboxTicket; onBack: () => void; onDecided: (ticketId: string) => void; isFocused: boolean };

export function TicketCard({ ticket, onBack, onDecided, isFocused }: Props) {
  const [shown, setShown] = useState<unknown>(undefined);
  const { data: run } = useQuery(runQuery(ticket.run_id));
  const agentId = ticket.agentId ?? run?.active_agent_id ?? run?.agent_id ?? null;
  const card = useRef<HTMLElement>(null);
  useEffect(() => {
    // A card that comes by itself takes the focus of the one that it replaces.
    if (isFocused) card.current?.focus({ preventScroll: true });
  }, [isFocused]);
  return (
    <Reading>
      <Box component="section" ref={card} tabIndex={-1} className={classes.card} aria-label={ticket.tool_name}>
        <Stack gap="md">
          <Group justify="space-between" align="flex-start" gap="xs">
            <Box miw={0} style={{ flex: "1 1 240px" }}>
              <Button className={classes.back} variant="subtle" leftSection={<IconArrowLeft size={14} />} onClick={onBack}>{texts.back}</Button>
              <Text size="xs" c="dimmed">{texts.asks[ticket.asks](agentId ?? "…")}</Text>
              <Title order={2} ff="monospace" style={{ overflowWrap: "anywhere" }}><ShownText text={ticket.tool_name} /></Title>
              {(ticket.suspension.message ?? "") === "" ? null : <Text mt={4} style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}><ShownText text={ticket.suspension.message} /></Text>}
            </Box>
            <Button variant="subtle" leftSection={<IconBraces size={14} />} onClick={() => setShown(ticket)}>{ui.asJson}</Button>
          </Group>
          <TicketArguments ticket={ticket} isTitled />
          <Effects ticket={ticket} />
          <TicketFacts ticket={{ ...ticket, agentId }} />
          <LastMessages threadId={ticket.thread_id} />
          <div className={classes.bar}><TicketDecision ticket={ticket} onDecided={onDecided} /></div>
        </Stack>
        <JsonDrawer title={ticket.tool_name} value={shown} onClose={() => setShown(undefined)} />
      </Box>
    </Reading>
  );
}
