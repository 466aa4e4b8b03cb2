/** Turns from what the store has: messages and runs. Pure. */
import type { AssistantTurn, Block, Call, CallState, Conversation, EndTurn, Turn, UserTurn } from "./fold";
import type { Part, Run, StoredMessage } from "./types";

function readParts(content: Part[] | string | undefined): Part[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
}

export function readText(parts: readonly Part[]): string {
  return parts.map((it) => (it.type === "text" ? it.text : "")).filter((it) => it !== "").join("\n");
}

function makeAssistant({ message_id: id, produced_by_run_id: runId, message }: StoredMessage, agentId: string | null): AssistantTurn {
  const blocks: Block[] = [];
  for (const part of readParts(message.content)) {
    if (part.type === "text" && part.text !== "") blocks.push({ kind: "text", text: part.text });
    else if (part.type === "thinking" && part.thinking !== "") blocks.push({ kind: "reasoning", text: part.thinking });
  }
  const calls = (message.tool_calls ?? []).map((it): Call => ({ id: it.id, name: it.name, state: "running", argumentsText: "", arguments: it.arguments, output: "", activities: {} }));
  return { kind: "assistant", id, runId: runId ?? "", agentId, blocks: [...blocks, ...calls.map((it): Block => ({ kind: "call", callId: it.id }))], calls, model: null, usage: null, resets: [] };
}

/** A stored result is text; one that is JSON is shown as what it says. */
export function readResult(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function giveResult(turns: Turn[], callId: string, text: string): void {
  const index = turns.findLastIndex((it) => it.kind === "assistant" && it.calls.some((call) => call.id === callId));
  const turn = turns[index];
  if (turn?.kind !== "assistant") return;
  turns[index] = { ...turn, calls: turn.calls.map((it) => (it.id === callId ? { ...it, state: "returned", result: readResult(text) } : it)) };
}

const isQuietEnd = (run: Run): boolean => run.termination === null || run.termination === undefined || run.termination.type === "suspended";

/** The turns of stored messages, oldest first; the end of each run stands after its last message. */
export function makeTurns(messages: readonly StoredMessage[], runs: readonly Run[]): Turn[] {
  const byId = new Map(runs.map((it) => [it.run_id, it]));
  const turns: Turn[] = [];
  const lastOf = new Map<string, string>();
  for (const stored of messages) {
    const { message, message_id: id } = stored;
    const runId = stored.produced_by_run_id ?? null;
    if (message.visibility === "internal") continue;
    if (message.role === "tool") giveResult(turns, message.tool_call_id ?? "", readText(readParts(message.content)));
    else if (message.role === "assistant") turns.push(makeAssistant(stored, byId.get(runId ?? "")?.agent_id ?? null));
    else turns.push({ kind: "user", id, runId, parts: readParts(message.content), isSystem: message.role === "system" } satisfies UserTurn);
    const last = turns.at(-1);
    if (runId !== null && last !== undefined && message.role !== "tool") lastOf.set(runId, last.id);
  }
  const ends = new Map<string, EndTurn>();
  for (const [runId, turnId] of lastOf) {
    const run = byId.get(runId);
    if (run === undefined || isQuietEnd(run) || run.termination === null) continue;
    ends.set(turnId, { kind: "end", id: `end:${runId}`, runId, agentId: run.agent_id, termination: run.termination as EndTurn["termination"] });
  }
  return turns.flatMap((it) => (ends.has(it.id) ? [it, ends.get(it.id)!] : [it]));
}

function pickRicher(stored: Turn, known: Turn | undefined): Turn {
  if (known === undefined) return stored;
  if (stored.kind !== "assistant" || known.kind !== "assistant") return known;
  // Events know more than the store (progress, usage); the store may know a result that came later.
  const calls = known.calls.map((it) => {
    const twin = stored.calls.find((call) => call.id === it.id);
    return twin !== undefined && twin.result !== undefined && it.result === undefined ? { ...it, result: twin.result, state: it.state === "suspended" || it.state === "running" ? twin.state : it.state } : it;
  });
  return calls.every((it, index) => it === known.calls[index]) ? known : { ...known, calls };
}

/** Brings stored turns into a conversation: their order counts, what only events told stays beside what it followed. */
export function mergeStored(now: Conversation, stored: readonly Turn[]): Conversation {
  const known = new Map(now.turns.map((it) => [it.id, it]));
  const storedIds = new Set(stored.map((it) => it.id));
  // The open step becomes a turn when its events say so, not before.
  const turns: Turn[] = stored.filter((it) => it.id !== now.open?.id).map((it) => pickRicher(it, known.get(it.id)));
  const isOverlapping = now.turns.some((it) => storedIds.has(it.id));
  let after = isOverlapping ? -1 : turns.length - 1;
  for (const turn of now.turns) {
    const place = turns.findIndex((it) => it.id === turn.id);
    after = place >= 0 ? place : after + 1;
    if (place < 0) turns.splice(after, 0, turn);
  }
  return { ...now, turns, pending: now.pending.filter((it) => !storedIds.has(it.id)) };
}

const KNOWN_ENDS: Readonly<Record<string, CallState>> = { succeeded: "succeeded", resumed: "succeeded", failed: "failed", declined: "declined" };

/** The runs, newest first, that have results of which nothing says whether they are failures. */
export function listUnsettledRuns({ turns }: Conversation): string[] {
  const runs = turns.flatMap((it) => (it.kind === "assistant" && it.runId !== "" && it.calls.some((call) => call.state === "returned") ? [it.runId] : []));
  return [...new Set(runs.toReversed())];
}

/** Gives the calls of a run the ends that its log tells. */
export function settleCalls(now: Conversation, runId: string, outcomes: ReadonlyMap<string, string>): Conversation {
  const settle = (call: Call): Call => {
    const state = call.state === "returned" ? KNOWN_ENDS[outcomes.get(call.id) ?? ""] : undefined;
    return state === undefined ? call : { ...call, state };
  };
  return { ...now, turns: now.turns.map((it) => (it.kind === "assistant" && it.runId === runId ? { ...it, calls: it.calls.map(settle) } : it)) };
}

/** Puts an earlier page of stored turns before what is there. */
export function prependStored(now: Conversation, stored: readonly Turn[]): Conversation {
  const known = new Set(now.turns.map((it) => it.id));
  return { ...now, turns: [...stored.filter((it) => !known.has(it.id)), ...now.turns] };
}
