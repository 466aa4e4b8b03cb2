import { describe, expect, test } from "vitest";

import {
  appendSpans, BAR_PX, buildAxis, buildMinimap, buildRows, FOLD_MS, FOLD_PX, joinMarks, keepProblems, lastSeq, listTicks, mergeBusy, placeBar, roundUp, toMs, toX, type Span,
} from "./waterfall";

const step = (n: number, start: number, ms: number | null, children: Span[] = [], seq = n * 10): Span => ({ kind: "step", n, start, ms, seq, children });
const tool = (start: number, ms: number, more: Partial<Span> = {}): Span => ({ kind: "tool", tool: "t", call_id: `c${start}`, outcome: "succeeded", start, ms, ...more });
const wait = (start: number, ms: number | null, seq = 99): Span => ({ kind: "wait", reason: "tool_permission", start, ms, seq });

/** A generator of repeatable numbers between 0 and 1. */
function makeRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function makeRun(random: () => number, steps: number): Span[] {
  const spans: Span[] = [];
  let at = 0;
  for (let n = 1; n <= steps; n += 1) {
    const ms = Math.floor(random() * 5_000);
    spans.push(step(n, at, ms, [tool(at, Math.floor(ms / 2))]));
    at += ms;
    if (random() < 0.3) {
      const gap = Math.floor(random() * 100_000);
      spans.push(wait(at, gap, n * 10 + 5));
      at += gap;
    }
  }
  return spans;
}

describe("rows", () => {
  test("a step comes before its calls, which are indented; keys are unique", () => {
    const rows = buildRows([step(1, 0, 100, [tool(10, 20), tool(40, 20)]), step(2, 100, 50)], { until: 150 });
    expect(rows.map((it) => [it.span.kind, it.depth, it.step, it.after])).toEqual([["step", 0, 1, 0], ["tool", 1, 1, 0], ["tool", 1, 1, 0], ["step", 0, 2, 10]]);
    expect(new Set(rows.map((it) => it.key)).size).toBe(rows.length);
  });

  test("a child run stands below its call, at its own time", () => {
    const children = new Map([["r2", { runId: "r2", startedAt: 1_020, endedAt: 1_050, spans: [step(1, 0, 30)] }]]);
    const rows = buildRows([step(1, 0, 100, [tool(10, 60, { child_run_id: "r2" })])], { until: 100, startedAt: 1_000, children });
    expect(rows.at(-1)).toMatchObject({ key: "r2/step-1", depth: 2, start: 20, end: 50, childOf: "r2" });
  });

  test("a child that names itself as its child ends", () => {
    const children = new Map([["r2", { runId: "r2", startedAt: 0, endedAt: 10, spans: [tool(0, 1, { child_run_id: "r2" })] }]]);
    expect(buildRows([tool(0, 1, { child_run_id: "r2" })], { until: 1, children })).toHaveLength(2);
  });

  test("what goes on ends now", () => {
    const rows = buildRows([step(1, 40, null)], { until: 100 });
    expect(rows[0]).toMatchObject({ start: 40, end: 100, isOpen: true });
  });

  test("problems keep their steps", () => {
    const spans = [step(1, 0, 10, [tool(0, 5)]), step(2, 10, 10, [tool(10, 5, { outcome: "failed" }), tool(15, 1)]), step(3, 20, 5)];
    expect(keepProblems(buildRows(spans, { until: 30 })).map((it) => it.key)).toEqual(["step-2", "tool-c10-"]);
    expect(keepProblems(buildRows(spans, { until: 30, hasFailed: true })).map((it) => it.key)).toEqual(["step-2", "tool-c10-", "step-3"]);
  });
});

describe("axis", () => {
  test("a wait is folded, with its length; a short one is not", () => {
    const rows = buildRows([step(1, 0, 1_000), wait(1_000, 86_000), step(2, 87_000, 1_000)], { until: 0 });
    const axis = buildAxis(rows, { width: 1_024 });
    expect(axis.segments.filter((it) => it.isFold)).toEqual([{ from: 1_000, to: 87_000, x: 500, width: FOLD_PX, isFold: true }]);
    expect(axis.width).toBeCloseTo(1_024);
    const short = buildAxis(buildRows([step(1, 0, 1_000), wait(1_000, FOLD_MS)], { until: 0 }), { width: 100 });
    expect(short.segments.some((it) => it.isFold)).toBe(false);
  });

  test("work of a child keeps a stretch open", () => {
    const children = new Map([["r2", { runId: "r2", startedAt: 5_000, endedAt: 60_000, spans: [step(1, 0, 55_000)] }]]);
    const rows = buildRows([tool(0, 100, { child_run_id: "r2" })], { until: 60_000, children });
    expect(buildAxis(rows, { width: 500 }).segments.some((it) => it.isFold)).toBe(false);
  });

  test("an empty run has an axis", () => {
    const axis = buildAxis([], { width: 300 });
    expect(toX(axis, 0)).toBe(0);
    expect(listTicks(axis, 0, 300).length).toBeGreaterThan(0);
  });

  test("no length of work is folded, order is kept, bars are inside: for many runs", () => {
    for (let seed = 1; seed <= 60; seed += 1) {
      const random = makeRandom(seed);
      const rows = buildRows(makeRun(random, 1 + Math.floor(random() * 40)), { until: 0 });
      const axis = buildAxis(rows, { width: 200 + random() * 1_500, zoom: 1 + random() * 8 });
      const busy = mergeBusy(rows);
      for (const it of axis.segments) {
        expect(it.width).toBeGreaterThan(0);
        if (!it.isFold) continue;
        expect(it.to - it.from).toBeGreaterThan(FOLD_MS);
        expect(busy.some((work) => work.from < it.to && work.to > it.from)).toBe(false);
      }
      const times = Array.from({ length: 50 }, () => random() * axis.end).sort((a, b) => a - b);
      const places = times.map((it) => toX(axis, it));
      for (const [index, place] of places.entries()) {
        expect(place).toBeGreaterThanOrEqual(places[index - 1] ?? 0);
        expect(place).toBeLessThanOrEqual(axis.width + 1e-6);
        expect(toMs(axis, place)).toBeCloseTo(times[index] ?? 0, 2);
      }
      for (const row of rows) {
        const bar = placeBar(axis, row);
        expect(bar.width).toBeGreaterThanOrEqual(BAR_PX);
        expect(bar.x + bar.width).toBeLessThanOrEqual(axis.width + BAR_PX + 1e-6);
      }
    }
  });

  test("a live run grows below: rows above keep their keys and their order, and the scale changes rarely", () => {
    const random = makeRandom(7);
    const spans = makeRun(random, 200);
    const scales = new Set<number>();
    let before: string[] = [];
    for (let count = 10; count <= spans.length; count += 1) {
      const rows = buildRows(spans.slice(0, count), { until: 0 });
      const keys = rows.map((it) => it.key);
      expect(keys.slice(0, before.length)).toEqual(before);
      before = keys;
      scales.add(roundUp(mergeBusy(rows).reduce((sum, it) => sum + it.to - it.from, 0)));
    }
    expect(scales.size).toBeLessThan(20);
  });

  test("a round length is never shorter", () => {
    for (const ms of [1, 9, 10, 11, 99, 1_234, 65_000, 9_999_999]) expect(roundUp(ms)).toBeGreaterThanOrEqual(ms);
  });

  test("the first token is marked within its bar", () => {
    const rows = buildRows([{ kind: "model", start: 0, ms: 100, first_token_ms: 25 }], { until: 100 });
    expect(placeBar(buildAxis(rows, { width: 400 }), rows[0]!)).toEqual({ x: 0, width: 400, mark: 100 });
  });

  test("ticks are round, apart and in order", () => {
    const axis = buildAxis(buildRows([step(1, 0, 7_300), wait(7_300, 50_000), step(2, 57_300, 900)], { until: 0 }), { width: 900 });
    const ticks = listTicks(axis, 0, axis.width);
    expect(ticks.length).toBeGreaterThan(3);
    for (const [index, it] of ticks.entries()) {
      if (index > 0) expect(it.x).toBeGreaterThan(ticks[index - 1]!.x);
      expect(it.ms > 7_300 && it.ms < 57_300).toBe(false);
    }
  });
});

test("the minimap shows what is most worth a look", () => {
  const rows = buildRows([step(1, 0, 100, [tool(0, 50, { outcome: "failed" })]), wait(100, 100)], { until: 0 });
  const marks = buildMinimap(rows, buildAxis(rows, { width: 200 }), 4);
  expect(marks).toEqual(["problem", "problem", "step", "wait"]);
  expect(joinMarks([...marks, null, "wait"])).toEqual([{ mark: "problem", at: 0, length: 2 }, { mark: "step", at: 2, length: 1 }, { mark: "wait", at: 3, length: 1 }, { mark: "wait", at: 5, length: 1 }]);
});

test("a page is put after what has ended", () => {
  const held = [step(1, 0, 10), step(2, 10, null)];
  expect(lastSeq(held)).toBe(10);
  expect(appendSpans(held, [step(2, 10, 5), step(3, 15, null)]).map((it) => [it.n, it.ms])).toEqual([[1, 10], [2, 5], [3, null]]);
});

test("a call that is held back is a point where it began to wait, not a bar before the model", () => {
  const held: Span = { kind: "tool", call_id: "c", tool: "delete", outcome: "suspended", start: 0, ms: 31, is_estimated: true, seq: 4 };
  const model: Span = { kind: "model", start: 2, ms: 27, seq: 3 };
  const rows = buildRows([{ kind: "step", n: 1, start: 0, ms: 31, seq: 5, children: [model, held] }], { until: 0 });
  expect(rows.map((it) => [it.span.kind, it.start, it.end])).toEqual([["step", 0, 31], ["model", 2, 29], ["tool", 31, 31]]);
});
