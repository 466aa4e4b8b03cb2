import { expect, test } from "vitest";

import { foldEvent, type Item, type RunEvent } from "./conversation";

const fold = (events: RunEvent[], start: Item[] = []) => events.reduce<Item[]>((items, it) => foldEvent(items, it), start);

test("deltas make one message, and calls stand between messages", () => {
  const items = fold([
    { event_type: "text_delta", delta: "a" }, { event_type: "text_delta", delta: "b" },
    { event_type: "tool_call_start", id: "1", name: "look" }, { event_type: "tool_call_ready", id: "1", arguments: { x: 1 } },
    { event_type: "tool_call_done", id: "1", outcome: "succeeded", result: { data: { y: 2 } } },
    { event_type: "text_delta", delta: "c" },
  ]);
  expect(items).toMatchObject([{ kind: "agent", text: "ab" }, { kind: "call", name: "look", arguments: { x: 1 }, result: '{"y":2}' }, { kind: "agent", text: "c" }]);
});

test("a suspended call has its ticket until it is resumed", () => {
  const waiting = fold([{ event_type: "tool_call_start", id: "1", name: "drop" }, { event_type: "tool_call_done", id: "1", outcome: "suspended", ticket_id: "t", result: {} }]);
  expect(waiting).toMatchObject([{ ticketId: "t" }]);
  expect(fold([{ event_type: "tool_call_resumed", target_id: "1", result: "done" }], waiting)).toMatchObject([{ ticketId: undefined, result: "done" }]);
});

test("a failed run says why, once", () => {
  expect(fold([{ event_type: "error", message: "no" }, { event_type: "run_finish", termination: { type: "error", message: "no" } }])).toEqual([{ kind: "error", text: "no" }]);
});
