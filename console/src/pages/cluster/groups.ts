/** Which values differ between processes. Pure. */

export type ValueGroup = { value: string; count: number };

/** Counts processes by a value, the most common first. */
export function groupBy<Row>(rows: readonly Row[], read: (row: Row) => string): ValueGroup[] {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(read(row), (counts.get(read(row)) ?? 0) + 1);
  return [...counts].map(([value, count]) => ({ value, count })).sort((a, b) => b.count - a.count || a.value.localeCompare(b.value));
}
