/** What a person fills in for an eval, and the spec that it makes. Pure. */
import type { EvalSpec, Variant } from "../../api/evals";
import { LIVE, writeSource } from "../../ui/evals/sources";
import type { JsonObject } from "../../ui/schema/model";

export type VariantForm = { name: string; agent: string | null; model: string | null; /** `live`, `draft:ID` or `publication:NO`. */ source: string; instructions: string; changes: JsonObject };
export type EvalForm = {
  dataset: string | null; mode: NonNullable<EvalSpec["mode"]>; repeats: string; variants: readonly VariantForm[]; baseline: string | null; onMiss: string; tags: readonly string[]; cases: readonly string[];
  judge: string | null; costUsd: string; tokens: string; minutes: string; hasDrafts: boolean; stopEarly: boolean; /** What the form has no field for, as the eval before had it. */ rest: Partial<EvalSpec>;
};

export function makeVariant(name: string): VariantForm {
  return { name, agent: null, model: null, source: LIVE, instructions: "", changes: {} };
}

export function makeForm(dataset: string | null, draft: string | null): EvalForm {
  const variants = [makeVariant("live"), ...(draft === null ? [] : [{ ...makeVariant("draft"), source: `draft:${draft}` }])];
  return { dataset, mode: "live", repeats: "", variants, baseline: null, onMiss: "diverge", tags: [], cases: [], judge: null, costUsd: "", tokens: "", minutes: "", hasDrafts: false, stopEarly: false, rest: {} };
}

function readNumber(text: string): number | undefined {
  const value = Number(text);
  return text.trim() === "" || !Number.isFinite(value) ? undefined : value;
}

function writeVariant({ name, agent, model, source, instructions, changes }: VariantForm): Variant {
  return {
    name,
    ...(agent === null ? {} : { agent_id: agent }),
    ...(model === null ? {} : { model_id: model }),
    ...writeSource(source),
    ...(instructions.trim() === "" ? {} : { instructions }),
    ...(Object.keys(changes).length === 0 ? {} : { changes: changes as Record<string, unknown> }),
  };
}

/** The spec that a form says; fields that are not filled in are left to the server. */
export function writeSpec(form: EvalForm): EvalSpec | null {
  if (form.dataset === null) return null;
  const [costUsd, tokens, minutes, repeats] = [form.costUsd, form.tokens, form.minutes, form.repeats].map(readNumber);
  const budget = { ...(costUsd === undefined ? {} : { cost_usd: costUsd }), ...(tokens === undefined ? {} : { tokens }), ...(minutes === undefined ? {} : { time_ms: Math.round(minutes * 60_000) }) };
  return {
    ...form.rest,
    dataset_id: form.dataset,
    variants: form.variants.map(writeVariant),
    mode: form.mode,
    ...(repeats === undefined ? {} : { repeats }),
    ...(form.baseline === null ? {} : { baseline: form.baseline }),
    ...(form.onMiss === "diverge" && form.rest.tools === undefined ? {} : { tools: { ...form.rest.tools, on_miss: form.onMiss } as EvalSpec["tools"] }),
    ...(form.tags.length === 0 ? {} : { tags: [...form.tags] }),
    ...(form.cases.length === 0 ? {} : { cases: [...form.cases] }),
    ...(form.judge === null ? {} : { judge_model_id: form.judge }),
    ...(Object.keys(budget).length === 0 ? {} : { budget: budget as EvalSpec["budget"] }),
    ...(form.hasDrafts ? { has_drafts: true } : {}),
    ...(form.stopEarly ? { stop_early: true } : {}),
  };
}

function write(value: number | null | undefined): string {
  return value == null ? "" : String(value);
}

/** The form that says what an eval was asked; its id and revision are its own. */
export function readSpec(spec: EvalSpec): EvalForm {
  const { dataset_id: dataset, variants = [{ name: "default" }], mode, repeats, baseline = null, tools, tags = [], cases = [], judge_model_id: judge = null, budget, has_drafts: hasDrafts = false, stop_early: stopEarly = false, id: _id, revision: _revision, ...rest } = spec;
  return {
    dataset, mode: mode ?? "live", repeats: write(repeats), baseline, onMiss: tools?.on_miss ?? "diverge", tags, cases, judge, hasDrafts, stopEarly,
    costUsd: write(budget?.cost_usd), tokens: write(budget?.tokens), minutes: write(budget?.time_ms == null ? null : budget.time_ms / 60_000),
    variants: variants.map((it) => ({ name: it.name, agent: it.agent_id ?? null, model: it.model_id ?? null, source: it.draft_id != null ? `draft:${it.draft_id}` : it.publication != null ? `publication:${it.publication}` : LIVE, instructions: it.instructions ?? "", changes: (it.changes ?? {}) as JsonObject })),
    rest: { ...rest, ...(tools == null ? {} : { tools }) },
  };
}
