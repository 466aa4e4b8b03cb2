/** What is changed in the lab: as a variant of a replay, and as writes into a draft. Pure. */
import type { JsonObject } from "../../ui/schema/model";
import type { Recording, ReplaySpec } from "./replaying";

export type LabForm = { mode: NonNullable<ReplaySpec["mode"]>; fromStep: number; source: string; model: string | null; prompt: string; tools: Readonly<Record<string, string>>; changes: JsonObject; onMiss: string; keepGoing: boolean };

export const LIVE = "live";

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

export function makeForm(recording: Recording, step: number): LabForm {
  return { mode: "what_if", fromStep: Math.max(1, step), source: LIVE, model: null, prompt: promptOf(recording), tools: {}, changes: {}, onMiss: "live_none", keepGoing: true };
}

/** Fields of the agent that the form changes. */
export function listChanges(form: LabForm, recording: Recording): JsonObject {
  return { ...form.changes, ...(form.model === null ? {} : { model_id: form.model }), ...(form.prompt === promptOf(recording) ? {} : { system_prompt: form.prompt }) };
}

export function hasChanges(form: LabForm, recording: Recording): boolean {
  return Object.keys(listChanges(form, recording)).length > 0 || Object.keys(form.tools).length > 0;
}

export function writeReplay(form: LabForm, recording: Recording): ReplaySpec {
  const isChanged = form.mode === "what_if" || form.mode === "simulate";
  const [kind, id] = form.source.split(/:(.*)/s);
  const variant = {
    name: "lab",
    agent_id: agentOf(recording),
    ...(kind === "draft" ? { draft_id: id } : kind === "publication" ? { publication: Number(id) } : {}),
    ...(form.model === null ? {} : { model_id: form.model }),
    ...(form.prompt === promptOf(recording) ? {} : { instructions: form.prompt }),
    ...(Object.keys(form.tools).length === 0 ? {} : { tool_descriptions: form.tools }),
    ...(Object.keys(form.changes).length === 0 ? {} : { changes: form.changes }),
  };
  return { mode: form.mode, from_step: form.fromStep, keep_going: form.keepGoing, ...(isChanged ? { variant, tools: { on_miss: form.onMiss } } : {}) };
}
