/** A question that a run waits for, in place: approve, deny or answer, with edited arguments and a memory of the answer. */
import { Box, Group, Stack, Text } from "@mantine/core";
import { IconHelpCircle, IconShieldQuestion } from "@tabler/icons-react";
import { useRef } from "react";

import { chat as texts } from "../../texts/chat";
import { showHidden } from "../../ui/hostileText";
import { Reading } from "../../ui/reading";
import { ShownText } from "../../ui/SafeText";
import { TicketArguments } from "../../ui/tickets/TicketArguments";
import { TicketDecision } from "../../ui/tickets/TicketDecision";
import classes from "./Chat.module.css";
import type { Ticket } from "./types";

export function TicketCard({ ticket }: { ticket: Ticket }) {
  // The card goes away with its decision: the conversation takes the focus that its button had.
  const log = useRef<HTMLElement | null>(null);
  const isPermission = ticket.asks === "permission";
  const Icon = isPermission ? IconShieldQuestion : IconHelpCircle;
  const { message } = ticket.suspension;
  return (
    <Box ref={(it: HTMLDivElement | null) => { log.current = it?.closest<HTMLElement>("[role=log]") ?? log.current; }} className={classes.ticket} role="group" aria-label={showHidden(isPermission ? texts.asksPermission(ticket.tool_name) : texts.asksAnswer(ticket.tool_name))}>
      <Stack gap="xs">
        <Group gap={6} wrap="nowrap" align="flex-start">
          <Icon size={18} aria-hidden className={classes.ticketIcon} />
          <Box miw={0}>
            <Text size="sm" fw={600}><ShownText text={isPermission ? texts.asksPermission(ticket.tool_name) : texts.asksAnswer(ticket.tool_name)} /></Text>
            {message === undefined || message === "" ? null : <Text size="sm" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}><ShownText text={message} /></Text>}
          </Box>
        </Group>
        <Reading>
          <TicketArguments ticket={ticket} maxHeight={320} />
          <TicketDecision ticket={ticket} onDecided={() => { if (document.activeElement === document.body) log.current?.focus({ preventScroll: true }); }} />
        </Reading>
      </Stack>
    </Box>
  );
}
