/** What is changed in the lab: as a variant of a replay, and as writes into a draft. Pure. */
import { isSame } from "../../api/changes";
import { LIVE, writeSource } from "../../ui/evals/sources";
import { isObject, type JsonObject } from "../../ui/schema/model";
import type { Recording, ReplaySpec } from "./replaying";

export type LabForm = { mode: NonNullable<ReplaySpec["mode"]>; fromStep: number; source: string; model: string | null; prompt: string; tools: Readonly<Record<string, string>>; /** The permission rules; `null`: as the run had them. */ rules: JsonObject | null; changes: JsonObject; onMiss: string; keepGoing: boolean };

const PERMISSION = "permission";

/** The agent that the run ended with, or began with. */
export function agentOf(recording: Recording): string {
  return recording.run.agent_id;
}

/** The instructions that the run had: those made for it, else those of its agent. */
export function promptOf(recording: Recording): string {
  const { instructions = {}, agents = {} } = recording.config;
  const agent = agents[agentOf(recording)] as { system_prompt?: string } | undefined;
  return instructions[agentOf(recording)] ?? agent?.system_prompt ?? "";
}

export function modelOf(recording: Recording): string {
  const agent = (recording.config.agents ?? {})[agentOf(recording)] as { model_id?: string } | undefined;
  return agent?.model_id ?? recording.steps?.find((it) => it.model !== undefined)?.model ?? "";
}

/** The agent as the run had it. */
function specOf(recording: Recording): JsonObject {
  const found = (recording.config.agents ?? {})[agentOf(recording)];
  return isObject(found as JsonObject | undefined) ? (found as JsonObject) : {};
}

function readSections(spec: JsonObject): JsonObject {
  return isObject(spec.sections) ? spec.sections : {};
}

function readPlugins(spec: JsonObject): readonly string[] {
  return Array.isArray(spec.plugin_ids) ? (spec.plugin_ids as readonly string[]) : [];
}

/** The permission rules that the run had; `null`: none, every call passed. */
export function rulesOf(recording: Recording): JsonObject | null {
  const spec = specOf(recording);
  if (!readPlugins(spec).includes(PERMISSION)) return null;
  const { [PERMISSION]: rules } = readSections(spec);
  return isObject(rules) ? rules : {};
}

/** An agent with the rules of the form: its other sections and plugins stay. */
function writeRules(form: LabForm, recording: Recording, spec: JsonObject): JsonObject {
  if (form.rules === null || isSame(form.rules, rulesOf(recording))) return {};
  const plugins = readPlugins(spec);
  return { sections: { ...readSections(spec), [PERMISSION]: form.rules }, ...(plugins.includes(PERMISSION) ? {} : { plugin_ids: [...plugins, PERMISSION] }) };
}

export function makeForm(recording: Recording, step: number): LabForm {
  return { mode: "what_if", fromStep: Math.max(1, step), source: LIVE, model: null, prompt: promptOf(recording), tools: {}, rules: null, changes: {}, onMiss: "live_none", keepGoing: true };
}

/** Fields of an agent that the form changes: of the one in the recording, or of the one that the changes are saved for. */
export function listChanges(form: LabForm, recording: Recording, spec: JsonObject = specOf(recording)): JsonObject {
  return { ...writeRules(form, recording, spec), ...form.changes, ...(form.model === null ? {} : { model_id: form.model }), ...(form.prompt === promptOf(recording) ? {} : { system_prompt: form.prompt }) };
}

export function hasChanges(form: LabForm, recording: Recording): boolean {
  return Object.keys(listChanges(form, recording)).length > 0 || Object.keys(form.tools).length > 0;
}

export function writeReplay(form: LabForm, recording: Recording): ReplaySpec {
  const isChanged = form.mode === "what_if" || form.mode === "simulate";
  const changes = { ...writeRules(form, recording, specOf(recording)), ...form.changes };
  const variant = {
    name: "lab",
    agent_id: agentOf(recording),
    ...writeSource(form.source),
    ...(form.model === null ? {} : { model_id: form.model }),
    ...(form.prompt === promptOf(recording) ? {} : { instructions: form.prompt }),
    ...(Object.keys(form.tools).length === 0 ? {} : { tool_descriptions: form.tools }),
    ...(Object.keys(changes).length === 0 ? {} : { changes }),
  };
  return { mode: form.mode, from_step: form.fromStep, keep_going: form.keepGoing, ...(isChanged ? { variant, tools: { on_miss: form.onMiss } } : {}) };
}
