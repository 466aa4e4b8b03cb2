/** The layout of a run's timeline: rows, a time axis without the stretches in which nothing runs, ticks and the minimap. Pure. */

/** A span of `/timeline`; the server leaves out what has its default. */
export type Span = {
  kind: string;
  start?: number;
  ms?: number | null;
  is_estimated?: boolean;
  n?: number | null;
  model?: string | null;
  first_token_ms?: number | null;
  tokens?: readonly number[] | null;
  cost_nanos?: number | null;
  attempts?: number | null;
  call_id?: string | null;
  tool?: string | null;
  outcome?: string | null;
  effect?: string | null;
  child_run_id?: string | null;
  reason?: string | null;
  tickets?: readonly string[];
  seq?: number | null;
  children?: readonly Span[];
};

/** The timeline of a child run, which is drawn below the call that started it. */
export type ChildTimeline = { runId: string; startedAt: number; endedAt: number | null; spans: readonly Span[] };

export type SpanRow = {
  /** Stays the same when the run grows. */
  key: string;
  depth: number;
  span: Span;
  /** Milliseconds since the start of the run on the page. */
  start: number;
  end: number;
  isOpen: boolean;
  isProblem: boolean;
  /** The number of its step, from 1; 0 before the first one. */
  step: number;
  /** The run that the span belongs to; null: the run of the page. */
  childOf: string | null;
  /** The place in the log before the events of its step. */
  after: number;
};

export type RowOptions = {
  /** Where spans that go on end for now. */
  until: number;
  startedAt?: number;
  children?: ReadonlyMap<string, ChildTimeline>;
  /** Whether the run failed: its last step is then a problem. */
  hasFailed?: boolean;
};

const PROBLEM_OUTCOMES = new Set(["failed", "declined"]);

/** Whether a person who looks for what went wrong wants to see the span. */
export function isProblem(span: Span): boolean {
  if (span.outcome != null && PROBLEM_OUTCOMES.has(span.outcome)) return true;
  if ((span.attempts ?? 1) > 1) return true;
  return span.kind === "wait" && span.ms == null;
}

function nameSpan(span: Span, step: number): string {
  switch (span.kind) {
    case "step": return `step-${span.n ?? step}`;
    case "tool": return `tool-${span.call_id ?? ""}-${span.seq ?? ""}`;
    default: return `${span.kind}-${span.seq ?? `open-${step}`}`;
  }
}

type Place = { depth: number; offset: number; prefix: string; childOf: string | null; until: number };

/** Makes a row of every span, in the order of the log; child runs stand below the calls that started them. */
export function buildRows(spans: readonly Span[], options: RowOptions): SpanRow[] {
  const rows: SpanRow[] = [];
  const { children = new Map<string, ChildTimeline>(), startedAt = 0 } = options;

  function addSpan(span: Span, place: Place, step: number, after: number): SpanRow {
    // A call that was held back has not run: all that is known is when it began to wait.
    const isHeld = span.kind === "tool" && span.outcome === "suspended" && span.is_estimated === true;
    const start = place.offset + (span.start ?? 0) + (isHeld ? (span.ms ?? 0) : 0);
    const isOpen = span.ms == null;
    const end = isOpen ? Math.max(start, place.until) : start + (isHeld ? 0 : (span.ms ?? 0));
    const row = { key: place.prefix + nameSpan(span, step), depth: place.depth, span, start, end, isOpen, isProblem: isProblem(span), step, childOf: place.childOf, after };
    rows.push(row);
    const child = span.child_run_id == null ? undefined : children.get(span.child_run_id);
    if (child !== undefined && !place.prefix.includes(`${child.runId}/`)) {
      const offset = Math.max(0, child.startedAt - startedAt);
      const until = child.endedAt === null ? place.until : child.endedAt - startedAt;
      addAll(child.spans, { depth: place.depth + 1, offset, prefix: `${place.prefix}${child.runId}/`, childOf: child.runId, until: Math.max(offset, until) });
    }
    return row;
  }

  function addAll(list: readonly Span[], place: Place): void {
    let step = 0;
    let after = 0;
    for (const span of list) {
      if (span.kind === "step") step = span.n ?? step + 1;
      const row = addSpan(span, place, step, after);
      for (const part of span.children ?? []) {
        const made = addSpan(part, { ...place, depth: place.depth + 1 }, step, after);
        if (made.isProblem && span.kind === "step") row.isProblem = true;
      }
      after = Math.max(after, span.seq ?? 0);
    }
  }

  addAll(spans, { depth: 0, offset: 0, prefix: "", childOf: null, until: options.until });
  if (options.hasFailed === true) {
    const last = rows.findLast((it) => it.span.kind === "step" && it.childOf === null);
    if (last !== undefined) last.isProblem = true;
  }
  return rows;
}

/** Keeps what went wrong, with the steps around it. */
export function keepProblems(rows: readonly SpanRow[]): SpanRow[] {
  return rows.filter((it) => it.isProblem);
}

/** Stretches longer than this in which nothing runs are folded. */
export const FOLD_MS = 10_000;
/** How wide a folded stretch is drawn. */
export const FOLD_PX = 24;
/** No bar is narrower. */
export const BAR_PX = 2;

export type Segment = { from: number; to: number; x: number; width: number; isFold: boolean };
export type Axis = { segments: readonly Segment[]; end: number; width: number; pixelsPerMs: number };

type Stretch = { from: number; to: number };

/** Merges the times in which something ran. Waits are times in which nothing runs. */
export function mergeBusy(rows: readonly SpanRow[]): Stretch[] {
  const busy = rows.filter((it) => it.span.kind !== "wait").map((it) => ({ from: it.start, to: it.end })).sort((a, b) => a.from - b.from);
  const merged: Stretch[] = [];
  for (const it of busy) {
    const last = merged.at(-1);
    if (last !== undefined && it.from <= last.to) last.to = Math.max(last.to, it.to);
    else merged.push({ ...it });
  }
  return merged;
}

/** The next round length, so that the axis of a run that goes on rarely changes its scale. */
export function roundUp(ms: number): number {
  if (ms <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(ms));
  const factor = [1, 1.5, 2, 3, 4, 6, 8, 10].find((it) => it * unit >= ms) ?? 10;
  return factor * unit;
}

/** Lays time out: what runs gets the width, stretches without work get `FOLD_PX` each. */
export function buildAxis(rows: readonly SpanRow[], options: { width: number; zoom?: number; isLive?: boolean; end?: number }): Axis {
  const end = rows.reduce((latest, it) => Math.max(latest, it.end), options.end ?? 0);
  const folds: Stretch[] = [];
  let free = 0;
  for (const it of [...mergeBusy(rows), { from: end, to: end }]) {
    if (it.from - free > FOLD_MS) folds.push({ from: free, to: it.from });
    free = Math.max(free, it.to);
  }
  const folded = folds.reduce((sum, it) => sum + it.to - it.from, 0);
  const shown = Math.max(1, end - folded);
  const room = Math.max(options.width - folds.length * FOLD_PX, options.width / 2, 1) * Math.max(1, options.zoom ?? 1);
  const pixelsPerMs = room / (options.isLive === true ? roundUp(shown) : shown);

  const segments: Segment[] = [];
  let x = 0;
  let at = 0;
  const add = (to: number, isFold: boolean) => {
    if (to <= at) return;
    const width = isFold ? FOLD_PX : (to - at) * pixelsPerMs;
    segments.push({ from: at, to, x, width, isFold });
    x += width;
    at = to;
  };
  for (const fold of folds) {
    add(fold.from, false);
    add(fold.to, true);
  }
  add(Math.max(end, at + (segments.length === 0 ? 1 : 0)), false);
  return { segments, end, width: Math.max(x, options.isLive === true ? room + folds.length * FOLD_PX : x), pixelsPerMs };
}

function findSegment(axis: Axis, isBefore: (it: Segment) => boolean): Segment | undefined {
  let low = 0;
  let high = axis.segments.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    const segment = axis.segments[middle];
    if (segment !== undefined && isBefore(segment)) low = middle + 1;
    else high = middle;
  }
  return axis.segments[low];
}

/** Where a time lies on the axis, in pixels. It never decreases with the time. */
export function toX(axis: Axis, ms: number): number {
  const segment = findSegment(axis, (it) => it.to < ms);
  if (segment === undefined) return 0;
  const part = (Math.min(Math.max(ms, segment.from), segment.to) - segment.from) / (segment.to - segment.from);
  return segment.x + part * segment.width;
}

/** The time at a place of the axis. */
export function toMs(axis: Axis, x: number): number {
  const segment = findSegment(axis, (it) => it.x + it.width < x);
  if (segment === undefined) return 0;
  const part = (Math.min(Math.max(x, segment.x), segment.x + segment.width) - segment.x) / segment.width;
  return segment.from + part * (segment.to - segment.from);
}

export type Bar = { x: number; width: number; /** Where the first token came, from the bar's start. */ mark: number | null };

export function placeBar(axis: Axis, row: SpanRow): Bar {
  const x = toX(axis, row.start);
  const width = Math.max(BAR_PX, toX(axis, row.end) - x);
  const first = row.span.kind === "model" ? row.span.first_token_ms : null;
  const mark = first == null ? null : Math.min(width, Math.max(0, toX(axis, row.start + first) - x));
  return { x, width, mark };
}

const TICK_PX = 96;
export type Tick = { ms: number; x: number };

/** Round times between two places, so far apart that their labels fit; none within folds. */
export function listTicks(axis: Axis, from: number, to: number): Tick[] {
  const raw = TICK_PX / axis.pixelsPerMs;
  const unit = 10 ** Math.floor(Math.log10(Math.max(raw, 1e-6)));
  const every = Math.max(1, unit * ([1, 2, 5, 10].find((it) => it * unit >= raw) ?? 10));
  const ticks: Tick[] = [];
  for (const it of axis.segments) {
    if (it.isFold || it.x > to || it.x + it.width < from) continue;
    const begin = Math.ceil(Math.max(it.from, toMs(axis, Math.max(from, it.x))) / every) * every;
    const stop = Math.min(it.to, toMs(axis, Math.min(to, it.x + it.width)));
    for (let ms = begin; ms <= stop; ms += every) {
      const x = toX(axis, ms);
      if (x - (ticks.at(-1)?.x ?? -TICK_PX) >= TICK_PX * 0.6) ticks.push({ ms, x });
    }
  }
  return ticks;
}

export type MapMark = "problem" | "tool" | "model" | "step" | "wait";
const WEIGHT: readonly MapMark[] = ["problem", "tool", "model", "step", "wait"];

/** What the minimap shows at each of its places: what is most worth a look there; null: nothing. */
export function buildMinimap(rows: readonly SpanRow[], axis: Axis, places: number): (MapMark | null)[] {
  const marks = new Array<MapMark | null>(places).fill(null);
  const scale = places / Math.max(1, axis.width);
  for (const row of rows) {
    const mark: MapMark = row.isProblem && row.span.kind !== "step" && row.span.kind !== "wait" ? "problem" : row.span.kind === "tool" || row.span.kind === "model" || row.span.kind === "wait" ? row.span.kind : "step";
    const first = Math.min(places - 1, Math.floor(toX(axis, row.start) * scale));
    const last = Math.min(places - 1, Math.floor(toX(axis, row.end) * scale));
    for (let at = first; at <= last; at += 1) {
      const held = marks[at];
      if (held == null || WEIGHT.indexOf(mark) < WEIGHT.indexOf(held)) marks[at] = mark;
    }
  }
  return marks;
}

export type MapStretch = { mark: MapMark; at: number; length: number };

/** Joins places of the minimap that show the same. */
export function joinMarks(marks: readonly (MapMark | null)[]): MapStretch[] {
  const found: MapStretch[] = [];
  for (const [at, mark] of marks.entries()) {
    const last = found.at(-1);
    if (mark === null) continue;
    if (last !== undefined && last.mark === mark && last.at + last.length === at) last.length += 1;
    else found.push({ mark, at, length: 1 });
  }
  return found;
}

/** Puts the next spans after those that have ended; what goes on is replaced by its newer form. */
export function appendSpans(held: readonly Span[], next: readonly Span[]): Span[] {
  return [...held.filter((it) => it.ms != null), ...next];
}

/** The place in the log after which the next spans are asked for. */
export function lastSeq(spans: readonly Span[]): number {
  return spans.reduce((latest, it) => (it.ms == null ? latest : Math.max(latest, it.seq ?? 0)), 0);
}
