/** Datasets, evals, replays and labels: what is known of them, and the requests that change them. */
import { queryOptions } from "@tanstack/react-query";

import { isObject, type Json, type JsonObject, type JsonSchema } from "../ui/schema/model";
import { api, need, type Schemas } from "./client";
import type { ListedPage } from "./paging";
import { queryClient, refreshKinds } from "./queries";
import { readAllBefore } from "./readAll";

/** A case in the form of the API; fields that the console does not know stay in it. */
export type Case = JsonObject & { readonly id: string };
export type ScorerSpec = { scorer: string; name?: string; options?: JsonObject; threshold?: number };
export type Dataset = { id: string; description: string; cases: readonly Case[]; scorers: readonly ScorerSpec[]; gate: JsonObject | null; revision: number; updatedAt: number; by: string; isDemo: boolean; erased: readonly string[]; duplicates: readonly Schemas["DuplicateCase"][] };
export type DatasetSpec = Pick<Dataset, "description" | "cases" | "scorers" | "gate">;

/** The server leaves out what has its default. */
export type Variant = Partial<Schemas["Variant"]> & { name: string };
export type EvalSpec = Partial<Omit<Schemas["EvalSpec"], "variants" | "scorers">> & { dataset_id: string; variants?: readonly Variant[]; scorers?: readonly ScorerSpec[] };
export type EvalRecord = { eval_id: string; spec: EvalSpec; revision: number; status: Schemas["EvalStatus"]; planned: number; problem?: string | null; spent?: { tokens?: number | null; cost_usd?: number | null }; summary?: Figures; manifest_hash?: string | null; is_demo?: boolean; created_by?: string; created_at: number; started_at?: number | null; finished_at?: number | null };
export type Score = Partial<Schemas["Score"]> & { name: string };
export type EvalItem = Partial<Omit<Schemas["EvalItem"], "scores">> & { number: number; case_id: string; variant: string; sample: number; status: Schemas["ItemStatus"]; scores: readonly Score[] };
export type Interval = Schemas["Interval"];
export type ScorerFigures = Partial<Schemas["ScorerFigures"]> & { scorer: string };
export type VariantFigures = Partial<Omit<Schemas["VariantFigures"], "scorers">> & { variant: string; scorers?: readonly ScorerFigures[] };
export type Comparison = Partial<Omit<Schemas["EvalComparison"], "scorers">> & { first: string; second: string; scorers?: readonly ScorerComparison[] };
export type ScorerComparison = Partial<Schemas["ScorerComparison"]> & { scorer: string; verdict: Schemas["ComparisonVerdict"]; reason: string };
export type Gate = { status: Schemas["GateStatus"]; checks?: readonly Schemas["GateCheck"][]; warnings?: readonly string[] };
export type Figures = { variants?: readonly VariantFigures[]; comparisons?: readonly Comparison[]; gate?: Gate | null; warnings?: readonly string[] };
export type Calibration = Partial<Schemas["Calibration"]> & { labels: number; is_calibrated: boolean };
export type Forms = { case: JsonSchema; gate: JsonSchema; scorers: Readonly<Record<string, JsonSchema>> };

const OPEN: readonly Schemas["EvalStatus"][] = ["planned", "running"];

export function isOpen(record: Pick<EvalRecord, "status">): boolean {
  return OPEN.includes(record.status);
}

function readDataset(view: Schemas["DatasetView"]): Dataset {
  const { spec, meta } = view;
  return {
    id: view.id, description: spec.description ?? "", cases: (spec.fixtures ?? []) as unknown as readonly Case[], scorers: (spec.scorers ?? []) as readonly ScorerSpec[], gate: (spec.gate ?? null) as JsonObject | null,
    revision: meta.revision, updatedAt: meta.updated_at ?? 0, by: meta.updated_by ?? "", isDemo: meta.is_demo ?? false, erased: view.erased ?? [], duplicates: view.duplicates ?? [],
  };
}

function readEval(record: Schemas["EvalRecord"]): EvalRecord {
  // A new one has the first status, which is left out.
  return { ...record, status: record.status ?? "planned", planned: record.planned ?? 0, created_at: record.created_at ?? 0 } as unknown as EvalRecord;
}

export function readItem(item: Schemas["EvalItem"]): EvalItem {
  return { ...item, scores: item.scores ?? [] } as EvalItem;
}

const ofDataset = (id: string) => ({ path: { dataset_id: id } });
const ofEval = (id: string) => ({ path: { eval_id: id } });

export function datasetListQuery(withDemo: boolean) {
  return queryOptions({
    queryKey: ["dataset", "list", withDemo],
    queryFn: async ({ signal }) => (await need(api.GET("/v1/eval/datasets", { params: { query: { limit: 1_000, demo: withDemo || undefined } }, signal }))).datasets,
  });
}

export const datasetsQuery = datasetListQuery(false);

export function datasetQuery(id: string, revision?: number) {
  return queryOptions({
    queryKey: ["dataset", "one", id, revision],
    queryFn: async ({ signal }) => readDataset(await need(api.GET("/v1/eval/datasets/{dataset_id}", { params: { ...ofDataset(id), query: { revision } }, signal }))),
  });
}

export function revisionsQuery(id: string) {
  return queryOptions({
    queryKey: ["dataset", "revisions", id],
    queryFn: async ({ signal }) => (await need(api.GET("/v1/eval/datasets/{dataset_id}/revisions", { params: { ...ofDataset(id), query: { limit: 200 } }, signal }))).revisions,
  });
}

/** JSON Schemas of cases, gates and the options of scorers: forms are made from them. */
export const formsQuery = queryOptions({
  queryKey: ["system", "eval-forms"],
  queryFn: async ({ signal }) => (await need(api.GET("/v1/eval/forms", { signal }))) as Forms,
  staleTime: Infinity,
  refetchInterval: false,
});

/** As many evals as are read at once where one is chosen; `useEvalChoice` asks for older ones. */
export const CHOICE_PAGE = 200;

/** The newest evals: not all of them, if there are `CHOICE_PAGE`. */
export function evalsQuery(datasetId?: string, withDemo = false) {
  return queryOptions({
    queryKey: ["eval", "list", datasetId, withDemo],
    queryFn: async ({ signal }) => (await need(api.GET("/v1/evals", { params: { query: { dataset_id: datasetId, limit: CHOICE_PAGE, demo: withDemo || undefined } }, signal }))).evals.map((it) => readEval(it.eval)),
  });
}

export type EvalFilter = { dataset?: string; status?: string; demo?: string };

/** As many evals as are listed at once. */
const EVALS_PAGE = 100;

/** A page of the evals, the newest first; the filters are the server's, which knows those of all pages. */
export async function fetchEvals({ dataset, status, demo }: EvalFilter, cursor: string | undefined, signal: AbortSignal, limit = EVALS_PAGE): Promise<ListedPage<EvalRecord>> {
  const query = { dataset_id: dataset, status, demo: demo === "true" || undefined, before: cursor === undefined ? undefined : Number(cursor), limit };
  const { evals, next_before: next } = await need(api.GET("/v1/evals", { params: { query }, signal }));
  return { items: evals.map((it) => readEval(it.eval)), next_cursor: next == null ? null : String(next) };
}

/**
 * The newest eval of a dataset that `isIt`, however many were made since; undefined if there is none that is as new as `since`. Evals come newest first, so
 * the search ends with the first that is older.
 */
export async function findEval(datasetId: string, since: number, isIt: (record: EvalRecord) => boolean, signal: AbortSignal): Promise<EvalRecord | undefined> {
  for (let cursor: string | undefined; ;) {
    const page: ListedPage<EvalRecord> = await fetchEvals({ dataset: datasetId }, cursor, signal, CHOICE_PAGE);
    const found = page.items.find(isIt);
    if (found !== undefined) return found;
    cursor = page.next_cursor ?? undefined;
    if (cursor === undefined || (page.items.at(-1)?.created_at ?? 0) < since) return undefined;
  }
}

export function evalQuery(id: string) {
  return queryOptions({ queryKey: ["eval", "one", id], queryFn: async ({ signal }) => readEval(await need(api.GET("/v1/evals/{eval_id}", { params: ofEval(id), signal }))) });
}

const ITEMS_PAGE = 1_000;

/** All items of an eval, page by page. */
export async function loadItems(id: string, signal?: AbortSignal): Promise<EvalItem[]> {
  const found: EvalItem[] = [];
  for (;;) {
    const { items } = await need(api.GET("/v1/evals/{eval_id}/items", { params: { ...ofEval(id), query: { after: found.at(-1)?.number ?? -1, limit: ITEMS_PAGE } }, signal }));
    found.push(...items.map(readItem));
    if (items.length < ITEMS_PAGE) return found;
  }
}

export function itemsQuery(id: string) {
  return queryOptions({ queryKey: ["eval", "items", id], queryFn: ({ signal }) => loadItems(id, signal) });
}

export function figuresQuery(id: string) {
  return queryOptions({ queryKey: ["eval", "figures", id], queryFn: async ({ signal }) => (await need(api.GET("/v1/evals/{eval_id}/figures", { params: ofEval(id), signal }))) as Figures });
}

export function comparisonQuery(first: string, second: string) {
  return queryOptions({
    queryKey: ["eval", "compare", first, second],
    queryFn: async ({ signal }) => (await need(api.GET("/v1/evals/{eval_id}/compare/{other_id}", { params: { path: { eval_id: first, other_id: second } }, signal }))) as { comparisons: readonly Comparison[]; warnings?: readonly string[] },
    retry: false,
  });
}

/** All labels of a judge, newest first: an answer whose label is not read would ask to be labelled again. */
function loadLabels(scorer: string, signal: AbortSignal): Promise<Schemas["StoredScore"][]> {
  return readAllBefore(async (query) => (await need(api.GET("/v1/eval/scores", { params: { query: { scorer, source: "human", ...query } }, signal }))).scores);
}

export function labelsQuery(scorer: string) {
  return queryOptions({ queryKey: ["eval", "labels", scorer], queryFn: ({ signal }) => loadLabels(scorer, signal) });
}

export function calibrationQuery(scorer: string) {
  return queryOptions({ queryKey: ["eval", "calibration", scorer], queryFn: async ({ signal }) => (await need(api.GET("/v1/eval/judges/{scorer}/calibration", { params: { path: { scorer } }, signal }))) as Calibration });
}

export async function createDataset(id: string, description: string): Promise<Dataset> {
  const body = { id, redact: false, spec: { description, fixtures: [], scorers: [], gate: null } } as Schemas["NewDataset"];
  const made = readDataset(await need(api.POST("/v1/eval/datasets", { params: { query: {} }, body })));
  await refreshKinds("dataset");
  return made;
}

/** Writes the next revision; it is refused if another person has written one meanwhile. */
export async function replaceDataset(id: string, spec: DatasetSpec, expected: number): Promise<Dataset> {
  const wire = { description: spec.description, fixtures: spec.cases, scorers: spec.scorers, gate: spec.gate } as unknown as Schemas["DatasetSpec"];
  const saved = readDataset(await need(api.PUT("/v1/eval/datasets/{dataset_id}", { params: ofDataset(id), body: { expected_revision: expected, spec: wire, redact: false } })));
  await refreshKinds("dataset");
  return saved;
}

/** Puts one case in the place of the one with its id, or at the end. Pure. */
export function putCase(cases: readonly Case[], id: string | null, next: Case): Case[] {
  return id !== null && cases.some((it) => it.id === id) ? cases.map((it) => (it.id === id ? next : it)) : [...cases, next];
}

export async function deleteDataset(id: string, revision: number): Promise<void> {
  await need(api.DELETE("/v1/eval/datasets/{dataset_id}", { params: { ...ofDataset(id), query: { expected_revision: revision } } }));
  await refreshKinds("dataset");
}

/** Makes a case of a run; it is a draft with a proposed expectation until a person confirms it. */
export async function captureRun(datasetId: string, runId: string, caseId: string | undefined, tags: readonly string[]): Promise<Case> {
  const body = { from_run_id: runId, fixture_id: caseId ?? null, tags: [...tags] } as unknown as Schemas["NewItem"];
  const saved = readDataset(await need(api.POST("/v1/eval/datasets/{dataset_id}/items", { params: ofDataset(datasetId), body })));
  await refreshKinds("dataset");
  const made = saved.cases.findLast((it) => it.source_run_id === runId);
  if (made === undefined) throw new Error(`An equal case is in ${datasetId} already.`);
  return made;
}

export async function startEval(spec: EvalSpec): Promise<EvalRecord> {
  const record = readEval(await need(api.POST("/v1/evals", { body: spec as unknown as Schemas["EvalSpec"] })));
  await refreshKinds("eval");
  return record;
}

export function estimateEval(spec: EvalSpec, signal?: AbortSignal): Promise<Schemas["EvalEstimate"]> {
  return need(api.POST("/v1/evals/estimate", { body: spec as unknown as Schemas["EvalSpec"], signal }));
}

export async function cancelEval(id: string): Promise<void> {
  await need(api.POST("/v1/evals/{eval_id}/cancel", { params: ofEval(id) }));
  await refreshKinds("eval");
}

export async function addLabel(runId: string, scorer: string, passed: boolean): Promise<void> {
  await need(api.POST("/v1/eval/labels", { body: { labels: [{ run_id: runId, scorer, passed, comment: "" }] } }));
  await queryClient.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] === "eval" && (queryKey[1] === "labels" || queryKey[1] === "calibration") });
}

/** The text that a case begins with, however it is given. Pure. */
export function readInput(it: Case): string {
  if (typeof it.user_input === "string") return it.user_input;
  const first = Array.isArray(it.input) ? (it.input[0] as Json) : undefined;
  const parts = isObject(first) && Array.isArray(first.content) ? first.content : [];
  return parts.map((part) => (isObject(part as Json) ? String((part as JsonObject).text ?? "") : "")).join("");
}
