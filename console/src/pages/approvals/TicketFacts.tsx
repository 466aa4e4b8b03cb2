/** Who asks and why: the facts about a ticket. */
import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { approvals as texts } from "../../texts/approvals";
import { formatDuration, formatTime } from "../../ui/format";
import { Age, CopyableId, useNow } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import { useSettings } from "../../ui/settings";
import classes from "./Approvals.module.css";
import { readRule } from "../../ui/tickets/rule";
import type { InboxTicket } from "./inbox";

function Deadline({ ticket }: { ticket: InboxTicket }) {
  const now = useNow(1_000);
  const { timeZone } = useSettings();
  if (ticket.expires_at === null || ticket.expires_at === undefined) return <>{texts.noDeadline}</>;
  const left = ticket.expires_at - now;
  return <span title={formatTime(ticket.expires_at, timeZone)}>{texts.deadline(left > 0 ? texts.inTime(formatDuration(left)) : texts.overdue, texts.onExpiry[ticket.on_expiry])}</span>;
}

export function TicketFacts({ ticket }: { ticket: InboxTicket }) {
  const rule = readRule(ticket);
  const facts: [string, ReactNode][] = [
    [texts.facts.agent, ticket.agentId === null ? "…" : <Link to="/agents/$agentId" params={{ agentId: ticket.agentId }}>{ticket.agentId}</Link>],
    [texts.facts.askedBy, ticket.asked_by ? texts.plugin(ticket.asked_by) : texts.theTool],
  ];
  if (rule.rule !== null) facts.push([texts.facts.rule, <Text key="rule" span ff="monospace" size="sm"><ShownText text={rule.rule} /></Text>]);
  if (rule.reason !== null) facts.push([texts.why, <ShownText key="why" text={rule.reason} />]);
  facts.push([texts.facts.waiting, <Age key="age" at={ticket.created_at} />], [texts.facts.deadline, <Deadline key="deadline" ticket={ticket} />]);
  if (ticket.deciders !== null && ticket.deciders !== undefined) facts.push([texts.facts.deciders, ticket.deciders.join(", ")]);
  facts.push(
    [texts.facts.run, <Link key="run" to="/runs/$runId" params={{ runId: ticket.run_id }}>{ticket.run_id}</Link>],
    [texts.facts.thread, <Link key="thread" to="/threads/$threadId" params={{ threadId: ticket.thread_id }}>{ticket.thread_id}</Link>],
    [texts.facts.ticket, <CopyableId key="ticket" id={ticket.ticket_id} chars={36} />],
  );
  return (
    <dl className={classes.facts}>
      {facts.map(([name, value]) => <FactRow key={name} name={name}>{value}</FactRow>)}
    </dl>
  );
}

function FactRow({ name, children }: { name: string; children: ReactNode }) {
  return <><dt>{name}</dt><dd>{children}</dd></>;
}
