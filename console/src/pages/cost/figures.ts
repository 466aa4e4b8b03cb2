/** Sums, series and the forecast of what runs have used. Pure: the clock is given. */
import type { Schemas } from "../../api/client";

export type UsageRow = { day?: number | null; agent_id?: string | null; model?: string | null; tenant_id?: string | null; sums: Partial<Schemas["UsageSums"]> };
export type Grouping = "agent" | "model" | "tenant";
export type Measure = "cost" | "tokens" | "runs";
export type Group = { name: string; runs: number; errors: number; input: number; output: number; cached: number; nanos: number; hasPrice: boolean };

export const DAY_MS = 86_400_000;
export const OTHERS = "\u0000others";
/** Days whose average the forecast goes on with. */
export const FORECAST_DAYS = 7;

export function nameRow(row: UsageRow, by: Grouping): string {
  return (by === "agent" ? row.agent_id : by === "model" ? row.model : row.tenant_id) ?? "";
}

export function measureRow(row: UsageRow, measure: Measure): number {
  if (measure === "runs") return row.sums.runs ?? 0;
  if (measure === "tokens") return (row.sums.input_tokens ?? 0) + (row.sums.output_tokens ?? 0);
  return (row.sums.cost_nanos ?? 0) / 1e9;
}

/** Sums rows by name, the most expensive first, then those with the most tokens. */
export function sumGroups(rows: readonly UsageRow[], by: Grouping): Group[] {
  const groups = new Map<string, Group>();
  for (const row of rows) {
    const name = nameRow(row, by);
    const now = groups.get(name) ?? { name, runs: 0, errors: 0, input: 0, output: 0, cached: 0, nanos: 0, hasPrice: false };
    groups.set(name, {
      name,
      runs: now.runs + (row.sums.runs ?? 0),
      errors: now.errors + (row.sums.errors ?? 0),
      input: now.input + (row.sums.input_tokens ?? 0),
      output: now.output + (row.sums.output_tokens ?? 0),
      cached: now.cached + (row.sums.cache_read_tokens ?? 0),
      nanos: now.nanos + (row.sums.cost_nanos ?? 0),
      hasPrice: now.hasPrice || typeof row.sums.cost_nanos === "number",
    });
  }
  return [...groups.values()].sort((a, b) => b.nanos - a.nanos || b.input + b.output - (a.input + a.output) || a.name.localeCompare(b.name));
}

/** Whether what these sums cost is not known at all: that is not nothing. */
export function isPriceless(sums: readonly UsageRow["sums"][]): boolean {
  const hasTokens = sums.some((it) => (it.input_tokens ?? 0) + (it.output_tokens ?? 0) > 0);
  return hasTokens && sums.every((it) => typeof it.cost_nanos !== "number");
}

export type DayPoint = { day: number } & Record<string, number>;

/** One point for each day of a period, also of those without usage; names beyond `most` are summed as others. */
export function makeSeries(rows: readonly UsageRow[], by: Grouping, measure: Measure, from: number, to: number, most = 6): { names: string[]; points: DayPoint[] } {
  const groups = sumGroups(rows, by).map((it) => it.name);
  const shown = groups.length <= most ? groups : groups.slice(0, most - 1);
  const names = groups.length <= most ? groups : [...shown, OTHERS];
  const points = new Map<number, DayPoint>();
  for (let day = Math.floor(from / DAY_MS) * DAY_MS; day <= to; day += DAY_MS) points.set(day, { day, ...Object.fromEntries(names.map((it) => [it, 0])) });
  for (const row of rows) {
    const point = points.get(row.day ?? -1);
    if (point === undefined) continue;
    const name = shown.includes(nameRow(row, by)) ? nameRow(row, by) : OTHERS;
    point[name] = (point[name] ?? 0) + measureRow(row, measure);
  }
  return { names, points: [...points.values()] };
}

/** `monthNanos`: null if runs used models, and none of these has a price. `endNanos`: null without a whole day as well. */
export type Forecast = { monthNanos: number | null; endNanos: number | null };

/** This month's spend, and what it comes to if each day that is left is like the average of the last whole days. */
export function forecastMonth(rows: readonly UsageRow[], now: number): Forecast {
  const date = new Date(now);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  const begin = Date.UTC(year, month, 1);
  const today = Math.floor(now / DAY_MS) * DAY_MS;
  const sum = (from: number, to: number) => rows.reduce((all, it) => (typeof it.day === "number" && it.day >= from && it.day < to ? all + (it.sums.cost_nanos ?? 0) : all), 0);
  const ofMonth = rows.filter((it) => typeof it.day === "number" && it.day >= begin);
  if (isPriceless(ofMonth.map((it) => it.sums))) return { monthNanos: null, endNanos: null };
  const monthNanos = sum(begin, today + DAY_MS);
  const first = Math.min(...rows.flatMap((it) => (typeof it.day === "number" ? [it.day] : [])));
  const days = Math.min(FORECAST_DAYS, (today - first) / DAY_MS);
  if (!(days >= 1)) return { monthNanos, endNanos: null };
  const average = sum(today - days * DAY_MS, today) / days;
  const left = (Date.UTC(year, month + 1, 1) - today) / DAY_MS - 1;
  return { monthNanos, endNanos: Math.round(monthNanos + average * left) };
}
