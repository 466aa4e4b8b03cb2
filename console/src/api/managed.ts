/** What the routes below /v1/config give: records, drafts, publications, the head. Their shapes are in docs/reference/configuration.md. */
import { queryOptions } from "@tanstack/react-query";

import { ask } from "./ask";
import type { Schemas } from "./client";
import type { Problem } from "./errors";

export type ConfigRecord = { id: string; created_at?: number; updated_at?: number } & Readonly<Record<string, unknown>>;
export type RecordList = { namespace: string; items: ConfigRecord[]; offset: number; limit: number };
export type RecordMeta = {
  id: string; hidden: boolean; owner: string; revision: number; drift: boolean; publication: number | null; hash: string | null;
  updated_by: string | null; created_at: number; updated_at: number;
};

export type FieldChange = { path: string; base?: unknown; live?: unknown; mine?: unknown; is_conflict?: boolean };
export type RecordState = "same" | "added" | "changed" | "deleted" | "theirs" | "conflict";
export type RecordChange = { ns: string; id: string; state: RecordState; fields: FieldChange[] };

export type DraftChange = { ns: string; id: string; type: "put" | "patch" | "delete"; spec?: ConfigRecord; overrides?: Record<string, unknown>; hidden?: boolean };
export type Draft = {
  id: string; title?: string; base: number | null; owner: string; editors: string[]; revision: number; changes: DraftChange[];
  created_at: number; updated_at: number; expires_at: number;
};
export type DraftDiff = { draft: string; base: number | null; head: number | null; records: RecordChange[] };
export type Diagnostic = Problem & { known?: string[] };
export type Validation = { ok: boolean; normalized?: ConfigRecord; problems: Diagnostic[]; problem_count?: number; diagnostics: Diagnostic[] };

export type Impact = {
  agents: { id: string; change: string; fields: string[] }[];
  tools: { agent: string; added: string[]; removed: string[] }[];
  prompt_cache: string[];
  secrets: string[];
  runs: { agent: string; running: number; waiting: number }[];
  calls: { calls: number; newly_allowed: number; newly_asked: number; newly_denied: number; examples: Schemas["PolicyChange"][] } | null;
  cost: { agent: string; before_nanos: number | null; after_nanos: number | null; difference_nanos: number | null }[];
};

export type PublicationChange = { ns: string; id: string; before: string | null; after: string | null; revision: number };
export type Publication = {
  publication: number; parent: number | null; kind?: string; message?: string; origin?: string; draft_id?: string; created_by: string; created_at: number;
  manifest_hash: string; changes: PublicationChange[];
};
export type PublicationDiff = { before: number; after: number; records: RecordChange[] };

export type Switch = { kind: SwitchKind; id: string; state: "paused" | "disabled"; reason: string; by: string; at: number };
export const SWITCH_KINDS = ["agent", "tool", "model", "provider", "mcp-server", "all"] as const;
export type SwitchKind = (typeof SWITCH_KINDS)[number];
export type CanaryKey = Schemas["CanaryKey"];
export type Guardrails = Partial<Schemas["Guardrails"]>;
/** Fields that have their default are absent. */
export type Canary = { publication: number; plan: { percent: number; by?: CanaryKey; guardrails?: Guardrails }; since: number };
export type Head = {
  publication: number | null; revision: number; canary: Canary | null; switches: Switch[];
  this_process: { publication: number | null; revision: number; applied_at: number | null; unusable: Record<string, string>; problem: string | null };
  workers: { id: string; publication: number | null; problem: string | null }[];
};

export const headQuery = queryOptions({
  queryKey: ["config", "head"],
  queryFn: ({ signal }) => ask<Head>("GET", "/v1/config/head", { signal }),
});

export const draftsQuery = queryOptions({
  queryKey: ["config", "drafts"],
  queryFn: async ({ signal }) => (await ask<{ items: Draft[] }>("GET", "/v1/config/drafts", { signal })).items,
});

export function recordsQuery(namespace: string) {
  return queryOptions({
    queryKey: ["config", "records", namespace],
    queryFn: async ({ signal }) => (await ask<RecordList>("GET", `/v1/config/${namespace}`, { signal, query: { limit: 1_000 } })).items,
  });
}

export function metaQuery(namespace: string) {
  return queryOptions({
    queryKey: ["config", "meta", namespace],
    queryFn: async ({ signal }) => (await ask<{ items: RecordMeta[] }>("GET", `/v1/config/${namespace}/meta`, { signal, query: { limit: 1_000 } })).items,
  });
}

/** The path of a record, with its id safe for an address. */
export function recordPath(namespace: string, id: string): string {
  return `/v1/config/${namespace}/${encodeURIComponent(id)}`;
}
