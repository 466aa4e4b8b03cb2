/** Decisions on tickets, of every page that shows one. */
import { noteDecision } from "../ui/settling";
import { api, need } from "./client";
import { buildDecision, type Decision, type Ticket } from "./decisionBody";
import { refreshKinds } from "./queries";

export type { Decision, Ticket } from "./decisionBody";

/** Waits until something was decided and the page shows it; until a moment later no other decision can be made. */
export async function settleDecision<T>(sent: Promise<T>): Promise<T> {
  try {
    return await sent;
  } finally {
    noteDecision();
    await refreshKinds("ticket", "run", "thread");
    noteDecision();
  }
}

export async function decideTicket(ticket: Ticket, decision: Decision): Promise<void> {
  await settleDecision(need(api.POST("/v1/runs/{run_id}/decision", { params: { path: { run_id: ticket.run_id } }, body: buildDecision(ticket, decision) })));
}
