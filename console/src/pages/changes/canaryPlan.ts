/** The plan of a canary as its form has it, and as the server takes it. Pure. */
import type { Schemas } from "../../api/client";

export type PlanForm = { percent: number; by: Schemas["CanaryKey"]; minRuns: number; maxErrorPercent: number | null; maxP95Seconds: number | null; maxCostUsd: number | null };

/** Over which time runs are judged. */
const WINDOW_MS = 900_000;

export const DEFAULT_PLAN: PlanForm = { percent: 10, by: "thread", minRuns: 20, maxErrorPercent: 5, maxP95Seconds: null, maxCostUsd: null };

export function writePlan(form: PlanForm): Schemas["CanaryPlan"] {
  const guardrails = {
    min_runs: form.minRuns,
    window_ms: WINDOW_MS,
    max_error_rate: form.maxErrorPercent === null ? null : form.maxErrorPercent / 100,
    max_error_rate_ratio: null,
    max_p95_ms: form.maxP95Seconds === null ? null : Math.round(form.maxP95Seconds * 1_000),
    max_cost_usd_per_run: form.maxCostUsd,
  };
  return { percent: form.percent, by: form.by, guardrails };
}

type EndedRun = { status: string; termination_reason?: string | null; duration_ms?: number | null; input_tokens?: number | null; output_tokens?: number | null; created_at: number };
export type SideFigures = { runs: number; failed: number; p50: number | null; p95: number | null; tokens: number | null };

function findQuantile(sorted: readonly number[], part: number): number | null {
  return sorted.length === 0 ? null : (sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * part) - 1)] ?? null);
}

/** Sums up the runs of one side that ended since the canary began. */
export function summarizeSide(runs: readonly EndedRun[], since: number): SideFigures {
  const ended = runs.filter((it) => it.status === "done" && it.created_at >= since);
  const times = ended.flatMap((it) => (typeof it.duration_ms === "number" ? [it.duration_ms] : [])).sort((a, b) => a - b);
  const tokens = ended.reduce((sum, it) => sum + (it.input_tokens ?? 0) + (it.output_tokens ?? 0), 0);
  return {
    runs: ended.length,
    failed: ended.filter((it) => it.termination_reason === "error").length,
    p50: findQuantile(times, 0.5),
    p95: findQuantile(times, 0.95),
    tokens: ended.length === 0 ? null : tokens / ended.length,
  };
}
