/** How much waits for each agent, and for how long. Pure. */
import type { Schemas } from "../../api/client";

export type Delivery = Schemas["DeliveryView"];
export type AgentDepth = { agent: string; queued: number; claimed: number; oldest: number | null };

/** One row for each agent that has something, the one with the oldest queued delivery first. */
export function sumDepth(queued: readonly Delivery[], claimed: readonly Delivery[], noAgent: string): AgentDepth[] {
  const rows = new Map<string, AgentDepth>();
  const rowOf = (it: Delivery): AgentDepth => {
    const agent = it.agent_id ?? noAgent;
    const row = rows.get(agent) ?? { agent, queued: 0, claimed: 0, oldest: null };
    rows.set(agent, row);
    return row;
  };
  for (const it of queued) {
    const row = rowOf(it);
    row.queued += 1;
    row.oldest = Math.min(row.oldest ?? Infinity, it.created_at);
  }
  for (const it of claimed) rowOf(it).claimed += 1;
  return [...rows.values()].sort((a, b) => (a.oldest ?? Infinity) - (b.oldest ?? Infinity));
}

/** The name of a status as the other pages spell it: `DeadLetter` is `dead_letter`. */
export function spellStatus(status: string): string {
  return status.replace(/(?!^)([A-Z])/g, "_$1").toLowerCase();
}

/** Whether a delivery can still be cancelled. */
export function isOpen(delivery: Delivery): boolean {
  const status = spellStatus(delivery.status);
  return status === "queued" || status === "claimed";
}
