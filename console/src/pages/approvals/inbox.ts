/** The order, groups and filters of the inbox. Pure. */
import type { Ticket } from "../../api/decisions";
import { writeExact } from "../../api/exactJson";

/** A ticket with the agent whose call waits; unknown until its run was read. */
export type InboxTicket = Ticket & { agentId: string | null };
export type GroupBy = "none" | "agent" | "tool" | "age";
export type TicketGroup = { name: string; tickets: readonly InboxTicket[] };
export type InboxFilter = { agent?: string; tool?: string; q?: string };

const MINUTE = 60_000;
const AGES = [
  { upTo: 5 * MINUTE, name: "less than 5 minutes" },
  { upTo: 60 * MINUTE, name: "less than an hour" },
  { upTo: 24 * 60 * MINUTE, name: "less than a day" },
  { upTo: Infinity, name: "more than a day" },
] as const;

export function isGroupBy(value: string | undefined): value is GroupBy {
  return value === "none" || value === "agent" || value === "tool" || value === "age";
}

export function matchesFilter(ticket: InboxTicket, { agent, tool, q }: InboxFilter): boolean {
  if (agent !== undefined && ticket.agentId !== agent) return false;
  if (tool !== undefined && ticket.tool_name !== tool) return false;
  if (q === undefined) return true;
  const text = writeExact([ticket.ticket_id, ticket.run_id, ticket.thread_id, ticket.tool_name, ticket.suspension.message, ticket.arguments]);
  return text?.toLowerCase().includes(q.toLowerCase()) === true;
}

function nameGroup(ticket: InboxTicket, by: GroupBy, now: number): string {
  if (by === "agent") return ticket.agentId ?? "…";
  if (by === "tool") return ticket.tool_name;
  if (by === "age") return AGES.find((it) => now - ticket.created_at < it.upTo)?.name ?? AGES[3].name;
  return "";
}

/** Groups in the order of their oldest ticket; within a group the oldest comes first. */
export function groupTickets(tickets: readonly InboxTicket[], by: GroupBy, now: number): TicketGroup[] {
  const groups = new Map<string, InboxTicket[]>();
  for (const ticket of [...tickets].sort((a, b) => a.created_at - b.created_at)) {
    const name = nameGroup(ticket, by, now);
    groups.set(name, [...(groups.get(name) ?? []), ticket]);
  }
  return [...groups].map(([name, members]) => ({ name, tickets: members }));
}

/** Whether a yes alone is a decision; a question needs an answer. */
export function takesYes(ticket: Ticket): boolean {
  return ticket.asks !== "answer";
}

/** The ticket to look at after one was decided: the next in the list, else the one before. */
export function pickNext(tickets: readonly { ticket_id: string }[], decided: ReadonlySet<string>, current: string | undefined): string | undefined {
  const at = tickets.findIndex((it) => it.ticket_id === current);
  const later = tickets.slice(at + 1).find((it) => !decided.has(it.ticket_id));
  return (later ?? tickets.slice(0, Math.max(at, 0)).findLast((it) => !decided.has(it.ticket_id)))?.ticket_id;
}
