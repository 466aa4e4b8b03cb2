/** Drafts: which one a person edits, and writes into it. Nothing here makes anything live but `publishDraft`. */
import { queryOptions } from "@tanstack/react-query";

import type { RecordChange } from "../ui/compare";
import { api, need, type Schemas, type Whole } from "./client";
import { ifMatch, type Namespace, type RecordWrite } from "./config";
import { queryClient } from "./queries";

export { applyChange, findChange, isSame, makeOverrides, makeWrite, pickDraft, stripAdded } from "./changes";

export type Draft = Schemas["DraftView"];
/** A draft in a list names its changes without their bodies. */
export type DraftSummary = Schemas["DraftSummary"];
/** How a draft differs from what is live, and of which revision of the draft that is. */
export type DraftDifference = Pick<Schemas["DraftDifference"], "draft" | "revision" | "base" | "head"> & { readonly records: readonly RecordChange[] };
export type Preference = Schemas["Preference"];

const place = (id: string) => ({ path: { draft_id: id } });
const record = (draft: Draft, namespace: Namespace, id: string) => ({ path: { draft_id: draft.id, namespace, record_id: id }, header: ifMatch(draft.revision) });

export const draftsQuery = queryOptions({
  queryKey: ["config", "drafts"],
  queryFn: async ({ signal }) => (await need(api.GET("/v1/config/drafts", { signal }))).items,
});

/** The drafts as they are now, for the choice of the one to write into. */
export function fetchDrafts(): Promise<readonly DraftSummary[]> {
  return queryClient.fetchQuery({ ...draftsQuery, staleTime: 0 });
}

export function loadDraft(id: string, signal?: AbortSignal): Promise<Draft> {
  return need(api.GET("/v1/config/drafts/{draft_id}", { params: place(id), signal }));
}

export function createDraft(title: string): Promise<Draft> {
  return need(api.POST("/v1/config/drafts", { body: { title } }));
}

export async function discardDraft({ id, revision }: Draft): Promise<void> {
  await need(api.DELETE("/v1/config/drafts/{draft_id}", { params: place(id), headers: ifMatch(revision) }));
}

export function saveRecord(draft: Draft, namespace: Namespace, id: string, write: RecordWrite): Promise<Draft> {
  const body = { spec: null, overrides: null, hidden: false, delete: false, ...write };
  return need(api.PUT("/v1/config/drafts/{draft_id}/{namespace}/{record_id}", { params: record(draft, namespace, id), body }));
}

export function dropRecord(draft: Draft, namespace: Namespace, id: string): Promise<Draft> {
  return need(api.DELETE("/v1/config/drafts/{draft_id}/{namespace}/{record_id}", { params: record(draft, namespace, id) }));
}

export function compareDraft(id: string, signal?: AbortSignal): Promise<DraftDifference> {
  return need(api.GET("/v1/config/drafts/{draft_id}/diff", { params: place(id), signal }));
}

export function checkDraft(id: string, signal?: AbortSignal): Promise<Schemas["CheckedDraft"]> {
  return need(api.POST("/v1/config/drafts/{draft_id}/validate", { params: place(id), signal }));
}

export type Impact = Whole<Schemas["ConfigImpact"]>;

export async function loadImpact(id: string, signal?: AbortSignal): Promise<Impact> {
  return (await need(api.GET("/v1/config/drafts/{draft_id}/impact", { params: place(id), signal }))) as Impact;
}

/** Brings a draft onto what is live; `fields` says whose value a field takes that both sides changed. */
export function rebaseDraft({ id, revision }: Draft, fields: Readonly<Record<string, Preference>> = {}): Promise<Draft> {
  return need(api.POST("/v1/config/drafts/{draft_id}/rebase", { params: { ...place(id), header: ifMatch(revision) }, body: { prefer: null, fields } }));
}

/** Writes a publication that no head points to, on which the draft can be tried. */
export async function previewDraft(id: string): Promise<number> {
  return (await need(api.POST("/v1/config/drafts/{draft_id}/preview", { params: place(id) }))).publication;
}

const AT_ONCE: Schemas["PublishBody"] = { message: "", expected_head: null, require: "self", canary: null, over_canary: null };

/** Makes a draft live as it was read: another revision is refused. */
export async function publishDraft({ id, revision }: Pick<Draft, "id" | "revision">, how: Partial<Schemas["PublishBody"]>): Promise<number> {
  const params = { ...place(id), header: ifMatch(revision) };
  return (await need(api.POST("/v1/config/drafts/{draft_id}/publish", { params, body: { ...AT_ONCE, ...how } }))).publication;
}
