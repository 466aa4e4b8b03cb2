/** Which parts of a tall box were on the screen, in pixels from its top. Pure. */

/** Spans are in order, and neither touch nor overlap. */
export type Span = readonly [from: number, to: number];

/** What lies between two measured places, and is less than a line of text. */
export const SLACK = 10;

export function addSpan(spans: readonly Span[], [from, to]: Span): Span[] {
  const touches = (it: Span) => it[0] <= to + SLACK && it[1] >= from - SLACK;
  const joined = spans.filter(touches).reduce((whole: Span, it) => [Math.min(whole[0], it[0]), Math.max(whole[1], it[1])], [from, to]);
  return [...spans.filter((it) => !touches(it)), joined].sort((a, b) => a[0] - b[0]);
}

/** Where the first part begins that was not on the screen; null if all of it was. */
export function findUnread(spans: readonly Span[], height: number): number | null {
  const [first] = spans;
  if (first === undefined || first[0] > SLACK) return 0;
  return first[1] < height - SLACK ? first[1] : null;
}

/** How much of it was on the screen, from 0 to 1; what is not whole is never 1. */
export function shareRead(spans: readonly Span[], height: number): number {
  if (findUnread(spans, height) === null) return 1;
  return Math.min(0.99, spans.reduce((sum, [from, to]) => sum + to - from, 0) / Math.max(1, height));
}
