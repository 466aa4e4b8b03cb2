import { expect, test } from "vitest";

import { changeLog, EMPTY, foldFrames, rewind, type AssistantTurn, type Conversation, type Log, type LogFrame } from "./fold";
import { collectInterfaces, keyOfCall } from "./generated/interfaces";
import { listUnsettledRuns, makeTurns, mergeStored, prependStored, settleCalls } from "./stored";
import type { RunEvent, StoredMessage } from "./types";

const START: Log = { shown: EMPTY, settled: EMPTY, cursor: null };
const identity = (run_id: string) => ({ run_id, thread_id: "t", agent_id: "a" });
const runStart = (run: string): RunEvent => ({ event_type: "run_start", run_id: run, identity: identity(run) });
const runFinish = (run: string, type = "natural_end"): RunEvent => ({ event_type: "run_finish", run_id: run, identity: identity(run), termination: { type } });
const live = (event: RunEvent): LogFrame => ({ id: null, event });
const logged = (id: number, event: RunEvent): LogFrame => ({ id: String(id), event });
const text = (delta: string): RunEvent => ({ event_type: "text_delta", delta });
const assistants = (now: Conversation) => now.turns.filter((it): it is AssistantTurn => it.kind === "assistant");
const textOf = (turn: AssistantTurn | null | undefined) => turn?.blocks.map((it) => ("text" in it ? it.text : `[${it.callId}]`)).join("|");

test("text, reasoning and calls stand in the order in which they came", () => {
  const { shown } = foldFrames(START, [
    logged(1, runStart("r")), live({ event_type: "step_start", message_id: "m" }), live({ event_type: "reasoning_delta", delta: "hm" }), live(text("a")), live(text("b")),
    live({ event_type: "tool_call_start", id: "c", name: "look" }), live({ event_type: "tool_call_delta", id: "c", args_delta: '{"x"' }), live({ event_type: "tool_call_delta", id: "c", args_delta: ":1}" }),
  ]);
  expect(textOf(shown.open)).toBe("hm|ab|[c]");
  expect(shown.open?.calls[0]).toMatchObject({ name: "look", state: "writing", argumentsText: '{"x":1}' });
});

test("a call has its progress, its output and its result", () => {
  const { shown } = foldFrames(START, [
    logged(1, runStart("r")), live({ event_type: "step_start", message_id: "m" }), live({ event_type: "tool_call_start", id: "c", name: "look" }), live({ event_type: "tool_call_ready", id: "c", name: "look", arguments: { x: 1 } }),
    live({ event_type: "activity_snapshot", message_id: "c", activity_type: "search", content: { hits: [] } }), live({ event_type: "activity_delta", message_id: "c", activity_type: "search", patch: [{ op: "add", path: "/hits/-", value: "a" }] }),
    live({ event_type: "tool_call_stream_delta", id: "c", delta: "asking…" }), logged(5, { event_type: "tool_call_done", id: "c", message_id: "m2", result: { data: 7 }, outcome: "succeeded" }), logged(6, { event_type: "step_end" }),
  ]);
  expect(assistants(shown)[0]?.calls[0]).toMatchObject({ state: "succeeded", activities: { search: { hits: ["a"] } }, output: "asking…", result: 7 });
  expect(shown.open).toBeNull();
});

test("what came after the last durable event is dropped, and comes again joined", () => {
  const cut = foldFrames(START, [logged(1, runStart("r")), live({ event_type: "step_start", message_id: "m" }), live(text("Hel")), live(text("lo"))]);
  const again = rewind(cut);
  expect(again.shown.open).toBeNull();
  expect(again.cursor).toBe("1");
  const { shown } = foldFrames(again, [logged(2, { event_type: "step_start", message_id: "m" }), logged(3, text("Hello there")), logged(4, { event_type: "step_end" }), logged(5, runFinish("r"))]);
  expect(assistants(shown).map(textOf)).toEqual(["Hello there"]);
  expect(shown.run?.state).toBe("ended");
});

test("wherever the stream is cut, the end is the same", () => {
  const frames: LogFrame[] = [
    logged(1, runStart("r")), logged(2, { event_type: "step_start", message_id: "m" }), logged(3, text("one ")), logged(4, { event_type: "tool_call_start", id: "c", name: "look" }),
    logged(5, { event_type: "tool_call_ready", id: "c", name: "look", arguments: {} }), logged(6, { event_type: "tool_call_done", id: "c", message_id: "x", result: { data: 1 }, outcome: "succeeded" }), logged(7, { event_type: "step_end" }),
    logged(8, { event_type: "step_start", message_id: "n" }), logged(9, text("two")), logged(10, { event_type: "step_end" }), logged(11, runFinish("r")),
  ];
  const whole = foldFrames(START, frames).shown;
  for (let at = 0; at <= frames.length; at += 1) {
    const before = foldFrames(foldFrames(START, frames.slice(0, at)), [live(text("provisional"))]);
    expect(foldFrames(rewind(before), frames.slice(at)).shown).toEqual(whole);
  }
});

test("a reset drops the deltas of the step and says so", () => {
  const { shown } = foldFrames(START, [logged(1, runStart("r")), live({ event_type: "step_start", message_id: "m" }), live(text("wrong")), live({ event_type: "stream_reset", reason: "again" }), live(text("right"))]);
  expect(textOf(shown.open)).toBe("right");
  expect(shown.open?.resets).toEqual(["again"]);
});

test("a decision that comes later changes the call of the earlier turn; the run goes on", () => {
  const waiting = foldFrames(START, [
    logged(1, runStart("r")), logged(2, { event_type: "step_start", message_id: "m" }), logged(3, { event_type: "tool_call_start", id: "c", name: "rm" }),
    logged(4, { event_type: "tool_call_done", id: "c", message_id: "", result: {}, outcome: "suspended", ticket_id: "k" }), logged(5, { event_type: "step_end" }), logged(6, runFinish("r", "suspended")),
  ]);
  expect(waiting.shown.run?.state).toBe("waiting");
  expect(assistants(waiting.shown)[0]?.calls[0]).toMatchObject({ state: "suspended", ticketId: "k" });
  const { shown } = foldFrames(waiting, [logged(7, runStart("r")), logged(8, { event_type: "tool_call_resumed", target_id: "c", message_id: "y", result: "deleted" })]);
  expect(assistants(shown)[0]?.calls[0]).toMatchObject({ state: "returned", result: "deleted", ticketId: undefined });
  expect(shown.run?.state).toBe("running");
});

test("500 deltas change the open step only, and none is lost", () => {
  const begun = foldFrames(START, [logged(1, runStart("q")), logged(2, { event_type: "step_start", message_id: "m" }), logged(3, text("old")), logged(4, { event_type: "step_end" }), logged(5, runStart("r")), logged(6, { event_type: "step_start", message_id: "n" })]);
  const after = foldFrames(begun, Array.from({ length: 500 }, (_, at) => live(text(`${at} `))));
  expect(after.shown.turns).toBe(begun.shown.turns);
  expect(textOf(after.shown.open)).toBe(Array.from({ length: 500 }, (_, at) => `${at} `).join(""));
});

const stored = (seq: number, id: string, role: string, content: string, more: object = {}): StoredMessage => ({ message_id: id, seq, produced_by_run_id: "r", created_at: 0, message: { role, content: [{ type: "text", text: content }], ...more } });

test("stored messages and events of the same run are one conversation, in the store's order", () => {
  const messages = [stored(1, "u", "user", "hi"), stored(2, "m", "assistant", "", { tool_calls: [{ id: "c", name: "look", arguments: {} }] }), stored(3, "x", "tool", '{"n":1}', { tool_call_id: "c" }), stored(4, "s", "user", "steered"), stored(5, "n", "assistant", "two")];
  const loaded = changeLog(START, (now) => mergeStored(now, makeTurns(messages, [])));
  expect(assistants(loaded.shown)[0]?.calls[0]?.result).toEqual({ n: 1 });
  const { shown } = foldFrames(loaded, [
    logged(1, runStart("r")), logged(2, { event_type: "step_start", message_id: "m" }), logged(3, { event_type: "tool_call_ready", id: "c", name: "look", arguments: {} }), logged(4, { event_type: "tool_call_done", id: "c", message_id: "x", result: { data: { n: 1 } }, outcome: "succeeded" }), logged(5, { event_type: "step_end" }),
    logged(6, { event_type: "step_start", message_id: "n" }), logged(7, text("two")), logged(8, { event_type: "step_end" }), logged(9, runFinish("r")),
  ]);
  expect(shown.turns.map((it) => it.id)).toEqual(["u", "m", "s", "n", "end:r"]);
  expect(mergeStored(shown, makeTurns(messages, [])).turns.map((it) => it.id)).toEqual(["u", "m", "s", "n", "end:r"]);
});

test("a message that was sent stands last until its run begins, and once when the store has it", () => {
  const sent = changeLog(START, (now) => ({ ...now, pending: [{ kind: "user", id: "u", runId: "r2", parts: [{ type: "text", text: "next" }], isSystem: false, mode: "queue", isAccepted: true }] }));
  const running = foldFrames(sent, [logged(1, runStart("r1"))]);
  expect(running.shown.pending).toHaveLength(1);
  const begun = foldFrames(running, [logged(2, runFinish("r1")), logged(3, runStart("r2"))]);
  expect(begun.shown.pending).toEqual([]);
  expect(begun.shown.turns.map((it) => it.id)).toEqual(["end:r1", "u"]);
  expect(mergeStored(begun.shown, makeTurns([stored(1, "u", "user", "next")], [])).turns.map((it) => it.id)).toEqual(["end:r1", "u"]);
});

test("an earlier page goes before what is there", () => {
  const now = mergeStored(EMPTY, makeTurns([stored(5, "e", "user", "5")], []));
  expect(prependStored(now, makeTurns([stored(3, "c", "user", "3"), stored(4, "d", "user", "4")], [])).turns.map((it) => it.id)).toEqual(["c", "d", "e"]);
});

test("surfaces of A2UI belong to the thread: a later call shows what the earlier ones made", () => {
  const call = (id: string, messages: unknown[]) => ({ tool_calls: [{ id, name: "render_a2ui", arguments: { messages } }] });
  const turns = makeTurns([
    stored(1, "m1", "assistant", "", call("c1", [{ surfaceUpdate: { surfaceId: "s", components: [{ id: "root", component: { Text: { text: { path: "/name" } } } }] } }, { beginRendering: { surfaceId: "s", root: "root" } }])),
    stored(2, "m2", "assistant", "", call("c2", [{ dataModelUpdate: { surfaceId: "s", contents: [{ key: "name", valueString: "Ada" }] } }])),
  ], []);
  const shown = collectInterfaces(turns).get(keyOfCall("m2", "c2"));
  expect(shown).toMatchObject({ kind: "a2ui", surfaces: [{ id: "s", root: "root", data: { name: "Ada" } }] });
});

test("a call that fails after it was approved has failed", () => {
  const { shown } = foldFrames(START, [
    logged(1, runStart("r")), live({ event_type: "step_start", message_id: "m" }), live({ event_type: "tool_call_ready", id: "c", name: "pay", arguments: {} }), logged(2, { event_type: "step_end" }),
    logged(3, { event_type: "tool_call_resumed", target_id: "c", message_id: "x", result: { error: "gone" }, is_failed: true }),
  ]);
  expect(assistants(shown)[0]?.calls[0]?.state).toBe("failed");
});

test("stored results are failures if the log of their run says so; others stay as they are", () => {
  const message = (id: string, run: string, rest: StoredMessage["message"]): StoredMessage => ({ message_id: id, seq: 1, created_at: 1, produced_by_run_id: run, message: rest });
  const turns = makeTurns([
    message("m1", "r1", { role: "assistant", tool_calls: [{ id: "a", name: "look", arguments: {} }, { id: "b", name: "pay", arguments: {} }] }),
    message("m2", "r1", { role: "tool", tool_call_id: "a", content: "ok" }), message("m3", "r1", { role: "tool", tool_call_id: "b", content: "boom" }),
    message("m4", "r2", { role: "assistant", tool_calls: [{ id: "c", name: "look", arguments: {} }] }), message("m5", "r2", { role: "tool", tool_call_id: "c", content: "ok" }),
  ], []);
  const before = { ...EMPTY, turns };
  expect(listUnsettledRuns(before)).toEqual(["r2", "r1"]);
  const after = settleCalls(before, "r1", new Map([["a", "succeeded"], ["b", "failed"], ["c", "failed"]]));
  expect(assistants(after).flatMap((it) => it.calls.map((call) => call.state))).toEqual(["succeeded", "failed", "returned"]);
  expect(listUnsettledRuns(after)).toEqual(["r2"]);
});
