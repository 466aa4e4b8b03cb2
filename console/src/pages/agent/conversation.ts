/** What a preview shows of a run: its events folded into messages and calls. Pure. */
import { writeExact } from "../../api/exactJson";
import type { Json } from "../../ui/schema/model";

export type Call = { kind: "call"; id: string; name: string; arguments: Json | undefined; result: string | undefined; ticketId: string | undefined; outcome: string | undefined };
export type Item = { kind: "you"; text: string } | { kind: "agent"; text: string } | { kind: "error"; text: string } | Call;
export type RunEvent = { event_type: string; [field: string]: unknown };

function showResult(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  return typeof value === "string" ? value : (writeExact(value) ?? "");
}

function changeCall(items: readonly Item[], id: unknown, change: Partial<Call>): Item[] {
  const index = items.findLastIndex((it) => it.kind === "call" && it.id === id);
  return items.map((it, at) => (at === index && it.kind === "call" ? { ...it, ...change } : it));
}

export function foldEvent(items: readonly Item[], event: RunEvent): Item[] {
  switch (event.event_type) {
    case "text_delta": {
      const last = items.at(-1);
      const delta = String(event.delta ?? "");
      return last?.kind === "agent" ? [...items.slice(0, -1), { ...last, text: last.text + delta }] : [...items, { kind: "agent", text: delta }];
    }
    case "tool_call_start":
      return [...items, { kind: "call", id: String(event.id), name: String(event.name), arguments: undefined, result: undefined, ticketId: undefined, outcome: undefined }];
    case "tool_call_ready":
      return changeCall(items, event.id, { arguments: event.arguments as Json });
    case "tool_call_done": {
      const result = event.result as { data?: unknown; message?: unknown } | undefined;
      const outcome = String(event.outcome ?? "");
      if (outcome === "suspended") return changeCall(items, event.id, { outcome, ticketId: typeof event.ticket_id === "string" ? event.ticket_id : undefined });
      return changeCall(items, event.id, { outcome, ticketId: undefined, result: showResult(result?.data) ?? showResult(result?.message) });
    }
    case "tool_call_resumed":
      return changeCall(items, event.target_id, { outcome: "succeeded", ticketId: undefined, result: showResult(event.result) });
    case "error":
      return [...items, { kind: "error", text: String(event.message ?? "") }];
    case "run_finish": {
      const end = event.termination as { type?: string; message?: string } | undefined;
      return end?.type === "error" && items.at(-1)?.kind !== "error" ? [...items, { kind: "error", text: end.message ?? end.type }] : [...items];
    }
    default:
      return [...items];
  }
}
