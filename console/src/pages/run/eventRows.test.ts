import { expect, test } from "vitest";

import { filterRows, formatSince, summarize, toRow } from "./eventRows";

const done = { seq: 6, created_at: 10, event: { event_type: "tool_call_done", outcome: "failed", result: { tool_name: "search", data: { n: 1 } } } };

test("a row says what its event is about", () => {
  expect(toRow(done, 2)).toMatchObject({ seq: 6, step: 2, summary: 'search failed {"n":1}', isProblem: true });
  expect(summarize({ event_type: "inference_complete", model: "m", usage: { prompt_tokens: 3, completion_tokens: 4 } })).toBe("m 3 → 4 tokens");
  expect(toRow({ seq: 1, created_at: 0, event: { event_type: "step_start", message_id: "x" } }, 0).step).toBe(1);
  expect(summarize({ event_type: "novel", a: 1 })).toBe('{"a":1}');
});

test("a row stays small, however long its event is", () => {
  const row = toRow({ seq: 1, created_at: 0, event: { event_type: "text_delta", delta: "x".repeat(1_000_000) } }, 0);
  expect(row.summary.length).toBeLessThan(200);
  expect(row.search.length).toBeLessThan(1_100);
});

test("rows are found by type, by text and by being a problem", () => {
  const rows = [toRow(done, 1), toRow({ seq: 7, created_at: 11, event: { event_type: "step_end" } }, 1)];
  expect(filterRows(rows, undefined, "")).toBe(rows);
  expect(filterRows(rows, "step_end", undefined).map((it) => it.seq)).toEqual([7]);
  expect(filterRows(rows, "problems", undefined).map((it) => it.seq)).toEqual([6]);
  expect(filterRows(rows, undefined, "SEARCH").map((it) => it.seq)).toEqual([6]);
});

test("times are told from the start of the run", () => {
  expect(formatSince(1_234, 0)).toBe("+1.234 s");
  expect(formatSince(0, 5)).toBe("−0.005 s");
  expect(formatSince(61_500, 0)).toBe("+1:01.5");
  expect(formatSince(3_661_000, 0)).toBe("+1:01:01");
});
