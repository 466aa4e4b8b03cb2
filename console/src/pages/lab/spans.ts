/** The waterfall of a recording: spans as the timeline of a run has them. Pure. */
import type { Span } from "../run/waterfall";
import type { RecordedStep } from "./replaying";

function outcomeOf(call: { outcome?: unknown }): string | null {
  const { outcome } = call;
  return typeof outcome === "string" ? outcome : null;
}

/** Steps one after the other; calls of a step begin when its answer is whole. Where the log has no times, a step begins where the one before ended. */
export function listSpans(steps: readonly RecordedStep[]): Span[] {
  const first = steps.find((it) => (it.at ?? 0) > 0)?.at ?? 0;
  let end = 0;
  return steps.map((step) => {
    const start = (step.at ?? 0) > 0 ? Math.max(0, (step.at ?? 0) - first) : end;
    const ms = step.ms ?? 0;
    const calls = (step.calls ?? []).map((call): Span => ({ kind: "tool", tool: call.tool, call_id: call.id, start: start + ms, ms: call.ms ?? 0, outcome: outcomeOf(call), effect: call.effect ?? null, attempts: call.attempts ?? 1 }));
    const longest = calls.reduce((most, it) => Math.max(most, it.ms ?? 0), 0);
    end = start + ms + longest;
    const tokens = step.usage == null ? null : [step.usage.prompt_tokens ?? 0, step.usage.completion_tokens ?? 0];
    const model: Span = { kind: "model", model: step.model ?? null, start, ms, first_token_ms: step.first_token_ms ?? null, tokens, attempts: step.attempts ?? 1, seq: step.n };
    return { kind: "step", n: step.n, start, ms: ms + longest, children: [model, ...calls] };
  });
}
