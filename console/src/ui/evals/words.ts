/** Figures of evals in words. Pure. */
import { formatCost, formatTokens } from "../format";

const NANOS = 1e9;

/** A share as percent; small ones and those close to 1 keep a digit, so that neither reads as 0 or 100. */
export function formatRate(value: number): string {
  const percent = value * 100;
  const isClose = (percent > 0 && percent < 1) || (percent > 99 && percent < 100);
  return `${percent.toFixed(isClose ? 1 : 0)} %`;
}

/** A difference of shares, in points of percent, with its sign. */
export function formatPoints(value: number): string {
  const points = value * 100;
  const digits = Math.abs(points) < 1 && points !== 0 ? 1 : 0;
  const sign = points > 0 ? "+" : points < 0 ? "−" : "±";
  return `${sign}${Math.abs(points).toFixed(digits)}`;
}

export function formatUsd(usd: number): string {
  return formatCost(usd * NANOS);
}

/** Money and tokens that are known; null if neither is. */
export function describeSpent(spent: { tokens?: number | null; cost_usd?: number | null } | undefined): string | null {
  const parts = [spent?.cost_usd == null ? null : formatUsd(spent.cost_usd), spent?.tokens == null ? null : `${formatTokens(spent.tokens)} tokens`].filter((it) => it !== null);
  return parts.length === 0 ? null : parts.join(" · ");
}

/** The budget of an eval in words; null without one. */
export function describeBudget(budget: { cost_usd?: number | null; tokens?: number | null; time_ms?: number | null } | null | undefined): string | null {
  if (budget == null) return null;
  const parts = [budget.cost_usd == null ? null : formatUsd(budget.cost_usd), budget.tokens == null ? null : `${formatTokens(budget.tokens)} tokens`, budget.time_ms == null ? null : `${Math.round(budget.time_ms / 60_000)} min`].filter((it) => it !== null);
  return parts.length === 0 ? null : parts.join(" · ");
}

/** What the reason of a verdict says beyond the figures and the verdict, which stand beside it; a reason in other words stays whole. */
export function shortenReason(reason: string): string {
  const rest = /^[+\-\d.]+ \[[^\]]*\] \([^)]*\): \w+(?:; (.*))?$/s.exec(reason);
  if (rest === null) return reason;
  const text = rest[1] ?? "";
  return text.charAt(0).toUpperCase() + text.slice(1);
}
