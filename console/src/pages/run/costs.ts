/** The tokens and the cost of a run by step and by model, from its timeline. Pure. */
import type { Span } from "./waterfall";

export type CallCost = { key: string; step: number; model: string; input: number; output: number; nanos: number | null; ms: number; firstToken: number | null; attempts: number };
export type ModelCost = { model: string; calls: number; input: number; output: number; nanos: number | null };

export function listCalls(spans: readonly Span[]): CallCost[] {
  return spans.filter((it) => it.kind === "step").flatMap((step) =>
    (step.children ?? []).filter((it) => it.kind === "model").map((it, index) => ({
      key: `${step.n ?? 0}-${index}`,
      step: step.n ?? 0,
      model: it.model ?? "",
      input: it.tokens?.[0] ?? 0,
      output: it.tokens?.[1] ?? 0,
      nanos: it.cost_nanos ?? null,
      ms: it.ms ?? 0,
      firstToken: it.first_token_ms ?? null,
      attempts: it.attempts ?? 1,
    })),
  );
}

function add(a: number | null, b: number | null): number | null {
  return a === null && b === null ? null : (a ?? 0) + (b ?? 0);
}

/** Sums of each model; a cost is absent where no call of the model has one. */
export function sumByModel(calls: readonly CallCost[]): ModelCost[] {
  const sums = new Map<string, ModelCost>();
  for (const it of calls) {
    const held = sums.get(it.model) ?? { model: it.model, calls: 0, input: 0, output: 0, nanos: null };
    sums.set(it.model, { model: it.model, calls: held.calls + 1, input: held.input + it.input, output: held.output + it.output, nanos: add(held.nanos, it.nanos) });
  }
  return [...sums.values()].sort((a, b) => (b.nanos ?? 0) - (a.nanos ?? 0) || b.input + b.output - a.input - a.output);
}
