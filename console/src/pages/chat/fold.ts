/** The fold from events to what a conversation shows. Pure: every change makes new objects only for what changed. */
import { applyPatch } from "./generated/patch";
import type { Part, RunEvent, Termination, Usage } from "./types";

/** `returned`: there is a result, and nothing says whether the tool succeeded (stored results, calls after a decision). */
export type CallState = "writing" | "running" | "suspended" | "succeeded" | "failed" | "declined" | "cancelled" | "returned";
export type Call = {
  id: string;
  name: string;
  state: CallState;
  /** The arguments as they are being written; `arguments` is set when they are whole. */
  argumentsText: string;
  arguments?: unknown;
  /** What the tool shows while it runs. */
  output: string;
  /** What the tool is doing, by kind of activity. */
  activities: Readonly<Record<string, unknown>>;
  result?: unknown;
  message?: string;
  ticketId?: string;
};
export type Block = { kind: "text"; text: string } | { kind: "reasoning"; text: string } | { kind: "call"; callId: string };

export type UserTurn = { kind: "user"; id: string; runId: string | null; parts: readonly Part[]; isSystem: boolean };
export type AssistantTurn = {
  kind: "assistant";
  id: string;
  runId: string;
  agentId: string | null;
  blocks: readonly Block[];
  calls: readonly Call[];
  model: string | null;
  usage: Usage | null;
  resets: readonly string[];
};
export type EndTurn = { kind: "end"; id: string; runId: string; agentId: string | null; termination: Termination };
export type ErrorTurn = { kind: "error"; id: string; message: string; code: string | null };
export type Turn = UserTurn | AssistantTurn | EndTurn | ErrorTurn;

/** A message that was sent and whose run has not begun. */
export type PendingTurn = UserTurn & { mode: "queue" | "steer" | "interrupt"; isAccepted: boolean };

export type RunFigures = { runId: string; agentId: string; steps: number; inputTokens: number; outputTokens: number; costNanos: number; state: "running" | "waiting" | "ended"; termination: Termination | null };
export type Conversation = {
  turns: readonly Turn[];
  /** The step that is being written. Kept apart, so that a piece of text changes nothing else. */
  open: AssistantTurn | null;
  pending: readonly PendingTurn[];
  run: RunFigures | null;
  /** The exported state, as the last snapshot had it. */
  state: unknown;
};

export const EMPTY: Conversation = { turns: [], open: null, pending: [], run: null, state: undefined };

function makeStep(id: string, run: RunFigures | null): AssistantTurn {
  return { kind: "assistant", id, runId: run?.runId ?? "", agentId: run?.agentId ?? null, blocks: [], calls: [], model: null, usage: null, resets: [] };
}

function appendText(turn: AssistantTurn, kind: "text" | "reasoning", delta: string): AssistantTurn {
  const last = turn.blocks.at(-1);
  if (last !== undefined && last.kind === kind) return { ...turn, blocks: [...turn.blocks.slice(0, -1), { kind, text: last.text + delta }] };
  return { ...turn, blocks: [...turn.blocks, { kind, text: delta }] };
}

function makeCall(id: string, name: string): Call {
  return { id, name, state: "writing", argumentsText: "", output: "", activities: {} };
}

function changeCallOf(turn: AssistantTurn, callId: string, change: (call: Call) => Call): AssistantTurn {
  return { ...turn, calls: turn.calls.map((it) => (it.id === callId ? change(it) : it)) };
}

/** Changes a call, in the open step or in the latest one that has it: a decision may come many turns later. */
function changeCall(now: Conversation, callId: string, change: (call: Call) => Call): Conversation {
  if (now.open?.calls.some((it) => it.id === callId) === true) return { ...now, open: changeCallOf(now.open, callId, change) };
  for (let index = now.turns.length - 1; index >= 0; index -= 1) {
    const turn = now.turns[index];
    if (turn?.kind !== "assistant" || !turn.calls.some((it) => it.id === callId)) continue;
    return { ...now, turns: now.turns.with(index, changeCallOf(turn, callId, change)) };
  }
  return now;
}

function startCall(now: Conversation, id: string, name: string): Conversation {
  const step = now.open ?? makeStep("", now.run);
  if (step.calls.some((it) => it.id === id)) return now;
  return { ...now, open: { ...step, blocks: [...step.blocks, { kind: "call", callId: id }], calls: [...step.calls, makeCall(id, name)] } };
}

/** Puts the open step among the finished turns; one that is already there (from the store) is replaced. */
function closeStep(now: Conversation): Conversation {
  const step = now.open;
  if (step === null) return now;
  if (step.blocks.length === 0 && step.resets.length === 0) return { ...now, open: null };
  const index = now.turns.findLastIndex((it) => it.id === step.id);
  return { ...now, open: null, turns: index < 0 ? [...now.turns, step] : now.turns.with(index, step) };
}

function startRun(now: Conversation, runId: string, agentId: string): Conversation {
  // A message whose run id the server has not told yet can only be the one that this run is about.
  const begun = now.pending.filter((it) => it.runId === runId || (it.runId === null && it.mode !== "steer"));
  const known = new Set(now.turns.map((it) => it.id));
  const run: RunFigures = now.run?.runId === runId
    ? { ...now.run, state: "running", termination: null }
    : { runId, agentId, steps: 0, inputTokens: 0, outputTokens: 0, costNanos: 0, state: "running", termination: null };
  return {
    ...closeStep(now),
    run,
    pending: now.pending.filter((it) => !begun.includes(it)),
    // A run that goes on takes its end mark back.
    turns: [...now.turns.filter((it) => !(it.kind === "end" && it.runId === runId)), ...begun.filter((it) => !known.has(it.id)).map(settlePending)],
  };
}

function settlePending({ mode: _mode, isAccepted: _isAccepted, ...turn }: PendingTurn): UserTurn {
  return turn;
}

function finishRun(now: Conversation, event: Extract<RunEvent, { event_type: "run_finish" }>): Conversation {
  const { termination, run_id: runId } = event;
  const closed = closeStep(now);
  const run = closed.run === null ? null : { ...closed.run, state: termination.type === "suspended" ? "waiting" as const : "ended" as const, termination };
  if (termination.type === "suspended") return { ...closed, run };
  const end: EndTurn = { kind: "end", id: `end:${runId}`, runId, agentId: event.identity.agent_id, termination };
  return { ...closed, run, turns: [...closed.turns.filter((it) => it.id !== end.id), end] };
}

function finishInference(now: Conversation, event: Extract<RunEvent, { event_type: "inference_complete" }>): Conversation {
  const usage = event.usage ?? {};
  const run = now.run === null ? null : {
    ...now.run,
    steps: now.run.steps + 1,
    inputTokens: now.run.inputTokens + (usage.prompt_tokens ?? 0),
    outputTokens: now.run.outputTokens + (usage.completion_tokens ?? 0),
    costNanos: now.run.costNanos + (usage.cost_nanos ?? 0),
  };
  return { ...now, run, open: now.open === null ? null : { ...now.open, model: event.model, usage } };
}

const OUTCOMES: Record<string, CallState> = { succeeded: "succeeded", failed: "failed", suspended: "suspended", cancelled: "cancelled" };

/** What a conversation is after an event. */
export function foldEvent(now: Conversation, event: RunEvent): Conversation {
  switch (event.event_type) {
    case "run_start":
      return startRun(now, event.run_id, event.identity.agent_id);
    case "run_finish":
      return finishRun(now, event);
    case "step_start":
      return { ...closeStep(now), open: makeStep(event.message_id, now.run) };
    case "step_end":
      return closeStep(now);
    case "text_delta":
      return { ...now, open: appendText(now.open ?? makeStep("", now.run), "text", event.delta) };
    case "reasoning_delta":
      return { ...now, open: appendText(now.open ?? makeStep("", now.run), "reasoning", event.delta) };
    case "tool_call_start":
      return startCall(now, event.id, event.name);
    case "tool_call_delta":
      return changeCall(now, event.id, (it) => ({ ...it, argumentsText: it.argumentsText + event.args_delta }));
    case "tool_call_ready":
      return changeCall(startCall(now, event.id, event.name), event.id, (it) => ({ ...it, arguments: event.arguments, state: "running" }));
    case "tool_call_stream_delta":
      return changeCall(now, event.id, (it) => ({ ...it, output: it.output + event.delta }));
    case "tool_call_cancel":
      return changeCall(now, event.id, (it) => ({ ...it, state: "cancelled", message: event.reason }));
    case "tool_call_done":
      return changeCall(now, event.id, (it) => ({
        ...it,
        state: OUTCOMES[event.outcome] ?? (event.result.status === "error" ? "failed" : "succeeded"),
        result: event.outcome === "suspended" ? undefined : (event.result.data ?? event.result.message),
        message: event.result.message,
        ticketId: event.ticket_id,
      }));
    case "tool_call_resumed":
      return changeCall(now, event.target_id, (it) => ({ ...it, state: event.is_declined === true ? "declined" : event.is_failed === true ? "failed" : "returned", result: event.result, ticketId: undefined }));
    case "stream_reset":
      return now.open === null ? now : { ...now, open: { ...makeStep(now.open.id, now.run), resets: [...now.open.resets, event.reason ?? ""] } };
    case "activity_snapshot":
      return changeCall(now, event.message_id, (it) => ({ ...it, activities: { ...it.activities, [event.activity_type]: event.content } }));
    case "activity_delta":
      return changeCall(now, event.message_id, (it) => ({ ...it, activities: { ...it.activities, [event.activity_type]: applyPatch(it.activities[event.activity_type], event.patch) } }));
    case "inference_complete":
      return finishInference(now, event);
    case "state_snapshot":
      return { ...now, state: event.snapshot };
    case "state_delta":
      return { ...now, state: applyPatch(now.state, event.delta) };
    case "error":
      return { ...closeStep(now), turns: [...closeStep(now).turns, { kind: "error", id: `error:${now.turns.length}`, message: event.message, code: event.code ?? null }] };
    default:
      return now;
  }
}

/** A fold that can go back to the last durable event: what came after it is sent again when a stream is opened again. */
export type Log = { shown: Conversation; settled: Conversation; cursor: string | null };
export type LogFrame = { id: string | null; event: RunEvent };

export function foldFrames(log: Log, frames: readonly LogFrame[]): Log {
  let { shown, settled, cursor } = log;
  for (const { id, event } of frames) {
    shown = foldEvent(shown, event);
    if (id !== null) {
      settled = shown;
      cursor = id;
    }
  }
  return { shown, settled, cursor };
}

/** Drops what is not durable; the person's own messages stay. */
export function rewind(log: Log): Log {
  const settled = { ...log.settled, pending: log.shown.pending };
  return { ...log, shown: settled, settled };
}

/** Changes both the shown and the settled conversation: for what does not come from events. */
export function changeLog(log: Log, change: (now: Conversation) => Conversation): Log {
  const shown = change(log.shown);
  return { ...log, shown, settled: log.settled === log.shown ? shown : change(log.settled) };
}
