/** Drafts: which one a person edits, and writes into it. Nothing here makes anything live but `publishDraft`. */
import type { JsonObject } from "../ui/schema/model";
import { askConfig, recordPath, type Draft, type Namespace, type RecordMeta, type Validation } from "./config";
import { ApiError } from "./errors";

export { applyChange, findChange, isSame, makeOverrides, makeWrite, pickDraft, stripAdded } from "./changes";

export function draftPath(id: string): string {
  return `/v1/config/drafts/${encodeURIComponent(id)}`;
}

export function loadDraft(id: string, signal?: AbortSignal): Promise<Draft> {
  return askConfig<Draft>("GET", draftPath(id), { signal });
}

export function createDraft(title: string): Promise<Draft> {
  return askConfig<Draft>("POST", "/v1/config/drafts", { body: { title } });
}

export function saveRecord(draft: Draft, namespace: Namespace, id: string, body: JsonObject): Promise<Draft> {
  return askConfig<Draft>("PUT", `${draftPath(draft.id)}/${namespace}/${encodeURIComponent(id)}`, { body, revision: draft.revision });
}

export function dropRecord(draft: Draft, namespace: Namespace, id: string): Promise<Draft> {
  return askConfig<Draft>("DELETE", `${draftPath(draft.id)}/${namespace}/${encodeURIComponent(id)}`, { revision: draft.revision });
}

export function validateDraft(id: string, signal?: AbortSignal): Promise<Validation> {
  return askConfig<Validation>("POST", `${draftPath(id)}/validate`, { signal });
}

/** Writes a publication that no head points to, on which the draft can be tried. */
export async function previewDraft(id: string): Promise<number> {
  return (await askConfig<{ publication: number }>("POST", `${draftPath(id)}/preview`)).publication;
}

export async function publishDraft(draft: Draft, message: string): Promise<number> {
  return (await askConfig<{ publication: number }>("POST", `${draftPath(draft.id)}/publish`, { body: { message }, revision: draft.revision })).publication;
}

/** Makes one record live at once, as a whole or as overrides, with a message. */
export function publishRecord(namespace: Namespace, id: string, write: { spec: JsonObject } | { overrides: JsonObject }, message: string, meta?: RecordMeta): Promise<unknown> {
  const revision = meta === undefined || meta.revision === 0 ? undefined : meta.revision;
  if ("overrides" in write) return askConfig("PATCH", `${recordPath(namespace, id)}/overrides`, { body: write.overrides, query: { message }, revision });
  return askConfig("PUT", recordPath(namespace, id), { body: write.spec, query: { message }, revision });
}

export function isConflict(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409;
}

export function isGone(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}
