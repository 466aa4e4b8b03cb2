/** What a decision on a ticket is, and its body. Pure. */
import type { Schemas } from "./client";

export type Ticket = Schemas["TicketView"];
export type Decision = {
  action: "resume" | "cancel";
  reason?: string;
  payload?: unknown;
  arguments?: unknown;
  rememberScope?: string;
};

/** The body of a decision on exactly what was shown: other arguments under the same ticket are refused by the server. */
export function buildDecision(ticket: Ticket, decision: Decision): Schemas["TicketDecision"] {
  const { action, reason, payload, rememberScope } = decision;
  const isRemembered = rememberScope !== undefined && rememberScope !== "once";
  return {
    action,
    ticket_id: ticket.ticket_id,
    tool_call_id: null,
    decision_id: null,
    arguments_hash: ticket.arguments_hash,
    reason: reason?.trim() === "" ? null : (reason?.trim() ?? null),
    payload: payload ?? (action === "resume" && ticket.asks === "either" ? true : null),
    arguments: decision.arguments ?? null,
    remember: isRemembered ? { scope: rememberScope as Schemas["PermissionScope"], pattern: null } : null,
  };
}
