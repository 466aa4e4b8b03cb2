/** Managed configuration: records, drafts, switches. The server types these routes as plain objects, so the forms of the replies stand here. */
import { queryOptions } from "@tanstack/react-query";

import type { Json, JsonObject, JsonSchema } from "../ui/schema/model";
import { root } from "./address";
import { api, need, send } from "./client";
import { readRefusal } from "./errors";

export type Namespace = "agents" | "tools" | "mcp-servers" | "a2a-servers" | "skills" | "models" | "model-pools" | "providers" | "rulesets" | "budgets";
/** A record in HTTP form; fields that the console does not know stay in it. */
export type ConfigRecord = JsonObject & { readonly id: string };
export type RecordMeta = {
  id: string;
  hidden: boolean;
  revision: number;
  /** `code`, `user`, `override` (overrides on a record of the code) or `file:<origin>`. */
  owner: string;
  drift: boolean;
  publication: number | null;
  hash: string | null;
  created_at: number;
  updated_at: number;
  updated_by: string | null;
  user_overrides?: JsonObject;
};
export type ToolCapability = {
  id: string;
  name: string;
  description: string;
  source: { kind: string; id?: string };
  effect: "none" | "idempotent" | "once";
  parameters_schema: JsonSchema | null;
};
export type SectionSchema = { key: string; schema: JsonSchema; display_name?: string; description?: string };
export type SkillCapability = { id: string; name?: string; description?: string; [field: string]: unknown };
export type Capabilities = {
  agents: string[];
  tools: ToolCapability[];
  plugins: { id: string; config_schemas: SectionSchema[] }[];
  skills: SkillCapability[];
  models: ConfigRecord[];
  providers: { id: string }[];
  namespaces: { namespace: Namespace; schema: JsonSchema }[];
};
export type DraftChange =
  | { ns: Namespace; id: string; type: "put"; spec: JsonObject }
  | { ns: Namespace; id: string; type: "patch"; overrides: JsonObject; hidden: boolean }
  | { ns: Namespace; id: string; type: "delete" };
export type Draft = {
  id: string;
  title: string;
  base: number | null;
  owner: string;
  editors: string[];
  revision: number;
  updated_at: number;
  changes: DraftChange[];
};
/** A draft in a list names its changes without their bodies. */
export type DraftSummary = Omit<Draft, "changes"> & { changes: { ns: Namespace; id: string; type: string }[] };
export type Switch = { kind: string; id: string; state: "paused" | "disabled"; reason: string; by?: string; at?: number };
export type Validation = {
  ok: boolean;
  problems: { path: string; code: string; message: string }[];
  diagnostics: { path?: string; code?: string; message: string }[];
  impact: { agents: { id: string; change: string; fields: string[] }[]; tools: { agent: string; added: string[]; removed: string[] }[]; prompt_cache: string[] };
};
export type AuditItem = {
  id: string; ts: string; actor: string; action: string; resource: string;
  publication?: number; message?: string; before?: Json; after?: Json; error?: string;
};

type Options = { body?: unknown; revision?: number; query?: Record<string, string | undefined>; signal?: AbortSignal; key?: string };

/** Sends a request about the configuration; a refusal is thrown as `ApiError`. */
export async function askConfig<T>(method: string, path: string, { body, revision, query, signal, key }: Options = {}): Promise<T> {
  const given = Object.entries(query ?? {}).filter((it): it is [string, string] => it[1] !== undefined && it[1] !== "");
  const search = new URLSearchParams(given).toString();
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (revision !== undefined) headers["If-Match"] = `"${revision}"`;
  if (key !== undefined) headers["Idempotency-Key"] = key;
  const url = `${location.origin}${root}${path}${search === "" ? "" : `?${search}`}`;
  const response = await send(new Request(url, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) }));
  if (!response.ok) throw await readRefusal(response);
  const text = await response.text();
  return (text === "" ? null : JSON.parse(text)) as T;
}

export function recordPath(namespace: Namespace, id: string): string {
  return `/v1/config/${namespace}/${encodeURIComponent(id)}`;
}

export const capabilitiesQuery = queryOptions({
  queryKey: ["config", "capabilities"],
  queryFn: ({ signal }) => askConfig<Capabilities>("GET", "/v1/capabilities", { signal }),
});

export function recordsQuery(namespace: Namespace) {
  return queryOptions({
    queryKey: ["config", "records", namespace],
    queryFn: async ({ signal }) => (await askConfig<{ items: ConfigRecord[] }>("GET", `/v1/config/${namespace}`, { query: { limit: "1000" }, signal })).items,
  });
}

export function metaListQuery(namespace: Namespace) {
  return queryOptions({
    queryKey: ["config", "meta", namespace],
    queryFn: async ({ signal }) => (await askConfig<{ items: RecordMeta[] }>("GET", `/v1/config/${namespace}/meta`, { query: { limit: "1000" }, signal })).items,
  });
}

export function recordQuery(namespace: Namespace, id: string) {
  return queryOptions({
    queryKey: ["config", "record", namespace, id],
    queryFn: ({ signal }) => askConfig<ConfigRecord>("GET", recordPath(namespace, id), { signal }),
  });
}

export function metaQuery(namespace: Namespace, id: string) {
  return queryOptions({
    queryKey: ["config", "meta", namespace, id],
    queryFn: ({ signal }) => askConfig<RecordMeta>("GET", `${recordPath(namespace, id)}/meta`, { signal }),
  });
}

export function schemaQuery(namespace: Namespace) {
  return queryOptions({
    queryKey: ["config", "schema", namespace],
    queryFn: ({ signal }) => askConfig<JsonSchema>("GET", `/v1/config/${namespace}/$schema`, { signal }),
    staleTime: Infinity,
  });
}

export const draftsQuery = queryOptions({
  queryKey: ["config", "drafts"],
  queryFn: async ({ signal }) => (await askConfig<{ items: DraftSummary[] }>("GET", "/v1/config/drafts", { signal })).items,
});

export const switchesQuery = queryOptions({
  queryKey: ["switch", "list"],
  queryFn: async ({ signal }) => (await askConfig<{ items: Switch[] }>("GET", "/v1/config/switches", { signal })).items,
});

/** What agents did in the last day, in all processes of the store. */
export const runtimeStatsQuery = queryOptions({
  queryKey: ["agent", "stats"],
  queryFn: async ({ signal }) => (await need(api.GET("/v1/agents/runtime-stats", { params: { query: { scope: "all" } }, signal }))).agents,
});

export function auditQuery(resource: string) {
  return queryOptions({
    queryKey: ["audit", resource],
    queryFn: async ({ signal }) => (await askConfig<{ items: AuditItem[] }>("GET", "/v1/audit-log", { query: { resource, limit: "100" }, signal })).items,
  });
}
