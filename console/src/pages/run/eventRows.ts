/** The rows of the event list: small, so that a long log fits; what an event holds is fetched when it is opened. Pure. */

export type Logged = { seq: number; created_at: number; event: { event_type: string } & Readonly<Record<string, unknown>> };
export type EventRow = { seq: number; at: number; type: string; step: number; summary: string; /** What a filter by text searches. */ search: string; isProblem: boolean };

const SUMMARY_CHARS = 160;
const SEARCH_CHARS = 1_000;

function cut(text: string, chars: number): string {
  return text.length > chars ? `${text.slice(0, chars)}…` : text;
}

function asText(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

function pick(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

/** One line about an event: what a person looks for in its kind. */
export function summarize(event: Logged["event"]): string {
  switch (event.event_type) {
    case "text_delta": case "reasoning_delta": return asText(event.delta);
    case "tool_call_start": return asText(event.name);
    case "tool_call_ready": return `${asText(event.name)} ${asText(event.arguments)}`;
    case "tool_call_done": return `${asText(pick(event.result, "tool_name"))} ${asText(event.outcome)} ${asText(pick(event.result, "data") ?? pick(event.result, "message"))}`;
    case "tool_call_resumed": return `${asText(event.target_id)} ${asText(event.result)}`;
    case "inference_complete": return `${asText(event.model)} ${asText(pick(event.usage, "prompt_tokens"))} → ${asText(pick(event.usage, "completion_tokens"))} tokens`;
    case "run_finish": return asText(pick(event.termination, "type"));
    case "step_start": return asText(event.message_id);
    case "step_end": return "";
    default: {
      const { event_type: _, ...rest } = event;
      return asText(rest);
    }
  }
}

function isProblemEvent(event: Logged["event"]): boolean {
  switch (event.event_type) {
    case "error": return true;
    case "tool_call_done": return event.outcome === "failed";
    case "tool_call_resumed": return event.is_declined === true;
    case "run_finish": return ["error", "blocked"].includes(asText(pick(event.termination, "type")));
    default: return false;
  }
}

/** Makes the row of an event; `step` is the number of steps that have begun before it. */
export function toRow({ seq, created_at, event }: Logged, step: number): EventRow {
  const summary = cut(summarize(event), SUMMARY_CHARS);
  return {
    seq,
    at: created_at,
    type: event.event_type,
    step: event.event_type === "step_start" ? step + 1 : step,
    summary,
    search: cut(`${event.event_type} ${asText(event)}`, SEARCH_CHARS).toLowerCase(),
    isProblem: isProblemEvent(event),
  };
}

export function filterRows(rows: readonly EventRow[], type: string | undefined, text: string | undefined): readonly EventRow[] {
  const wanted = text?.trim().toLowerCase() ?? "";
  if (type === undefined && wanted === "") return rows;
  return rows.filter((it) => (type === undefined || (type === "problems" ? it.isProblem : it.type === type)) && (wanted === "" || it.search.includes(wanted)));
}

/** A time since another, as `+1.234 s`. */
export function formatSince(at: number, from: number): string {
  const ms = at - from;
  const seconds = Math.abs(ms) / 1_000;
  const sign = ms < 0 ? "−" : "+";
  if (seconds < 60) return `${sign}${seconds.toFixed(3)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${sign}${minutes}:${(seconds % 60).toFixed(1).padStart(4, "0")}` : `${sign}${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
}
