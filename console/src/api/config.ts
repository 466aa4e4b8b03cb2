/** Managed configuration: records and what is known of them, publications, the head, switches, the audit. */
import { queryOptions } from "@tanstack/react-query";

import type { JsonObject, JsonSchema } from "../ui/schema/model";
import { api, need, type Schemas } from "./client";
import { isGone } from "./errors";
import { readAll } from "./readAll";

export type Namespace = "agents" | "tools" | "mcp-servers" | "a2a-servers" | "skills" | "models" | "model-pools" | "providers" | "rulesets" | "budgets";
/** A record in HTTP form; fields that the console does not know stay in it. */
export type ConfigRecord = JsonObject & { readonly id: string; readonly created_at?: number; readonly updated_at?: number };
export type RecordFacts = Schemas["RecordFacts"];
export type ListedFacts = Schemas["ListedFacts"];
export type Capabilities = Schemas["Capabilities"];
export type Switch = Schemas["Switch"];
export type SwitchKind = Switch["kind"];
export const SWITCH_KINDS = ["agent", "tool", "model", "provider", "mcp-server", "all"] as const satisfies readonly SwitchKind[];
export type Head = Schemas["HeadView"];
/** A canary as a decision names it: another one is left alone. */
export type SeenCanary = Schemas["SeenCanary"];

export function nameCanary({ publication, since }: Schemas["Canary"]): SeenCanary {
  return { publication, since };
}

/** Fields that have their default are absent. */
export type Guardrails = Partial<Schemas["Guardrails"]>;
export type Publication = Schemas["PublicationView"];

/** The header that makes a write fail if what it replaces has another revision. */
export function ifMatch(revision: number | undefined): { "If-Match"?: string } {
  return revision === undefined ? {} : { "If-Match": `"${revision}"` };
}

export const capabilitiesQuery = queryOptions({
  queryKey: ["config", "capabilities"],
  queryFn: ({ signal }) => need(api.GET("/v1/capabilities", { signal })),
});

export function recordsQuery(namespace: Namespace) {
  return queryOptions({
    queryKey: ["config", "records", namespace],
    queryFn: ({ signal }) => readAll(async (query) => (await need(api.GET("/v1/config/{namespace}", { params: { path: { namespace }, query }, signal }))) as unknown as { items: ConfigRecord[] }),
  });
}

export function factsQuery(namespace: Namespace) {
  return queryOptions({
    queryKey: ["config", "facts", namespace],
    queryFn: ({ signal }) => readAll((query) => need(api.GET("/v1/config/{namespace}/meta", { params: { path: { namespace }, query }, signal }))),
  });
}

export function schemaQuery(namespace: Namespace) {
  return queryOptions({
    queryKey: ["config", "schema", namespace],
    queryFn: async ({ signal }): Promise<JsonSchema> => need(api.GET("/v1/config/{namespace}/$schema", { params: { path: { namespace } }, signal })),
    staleTime: Infinity,
  });
}

/** A record, and the revision that it has: what an edit of it begins with. */
export type RecordVersion = { record: ConfigRecord; revision: number };

export async function loadVersion(namespace: Namespace, id: string, signal?: AbortSignal): Promise<RecordVersion> {
  const asked = api.GET("/v1/config/{namespace}/{record_id}", { params: { path: { namespace, record_id: id } }, signal });
  const record = (await need(asked)) as ConfigRecord;
  return { record, revision: Number((await asked).response.headers.get("ETag")?.replaceAll('"', "")) };
}

export async function loadRecord(namespace: Namespace, id: string, signal?: AbortSignal): Promise<ConfigRecord> {
  return (await need(api.GET("/v1/config/{namespace}/{record_id}", { params: { path: { namespace, record_id: id } }, signal }))) as ConfigRecord;
}

export function loadFacts(namespace: Namespace, id: string): Promise<RecordFacts> {
  return need(api.GET("/v1/config/{namespace}/{record_id}/meta", { params: { path: { namespace, record_id: id } } }));
}

/** Asks whether a record compiles; the server refuses one that does not, with its problems. */
export function checkRecord(namespace: Namespace, id: string, body: JsonObject, signal?: AbortSignal): Promise<Schemas["CheckedRecord"]> {
  return need(api.POST("/v1/config/{namespace}/validate", { params: { path: { namespace }, query: { id } }, body, signal }));
}

/** The same for overrides of a record of the code. */
export function tryOverrides(namespace: Namespace, id: string, overrides: JsonObject, signal?: AbortSignal): Promise<Schemas["CheckedRecord"]> {
  return need(api.POST("/v1/config/{namespace}/{record_id}/overrides", { params: { path: { namespace, record_id: id } }, body: overrides, signal }));
}

/** How a record is written: as a whole, or as overrides on the code's. */
export type RecordWrite = { spec: JsonObject } | { overrides: JsonObject };

/** Makes one record live at once, with a message, if it still has the revision that the change began with; 0 for one that is not there yet. */
export async function publishRecord(namespace: Namespace, id: string, write: RecordWrite, message: string, revision: number): Promise<void> {
  const params = { path: { namespace, record_id: id }, query: { message }, header: ifMatch(revision) };
  await need("overrides" in write
    ? api.PATCH("/v1/config/{namespace}/{record_id}/overrides", { params, body: write.overrides })
    : api.PUT("/v1/config/{namespace}/{record_id}", { params, body: write.spec }));
}

export async function deleteRecord(namespace: Namespace, id: string, revision: number): Promise<void> {
  await need(api.DELETE("/v1/config/{namespace}/{record_id}", { params: { path: { namespace, record_id: id }, header: ifMatch(revision) } }));
}

/** Takes one override back: the field is the code's again. */
export async function dropOverride(namespace: Namespace, id: string, field: string, revision: number | undefined): Promise<void> {
  await need(api.DELETE("/v1/config/{namespace}/{record_id}/overrides/{field}", { params: { path: { namespace, record_id: id, field }, header: ifMatch(revision) } }));
}

/** Makes an earlier version of a record live, over the revision that was seen. */
export async function restoreRecord(namespace: Namespace, id: string, version: string, revision: number): Promise<void> {
  await need(api.POST("/v1/config/{namespace}/{record_id}/restore", { params: { path: { namespace, record_id: id }, header: ifMatch(revision) }, body: { version, message: "" } }));
}

export const headQuery = queryOptions({
  queryKey: ["config", "head"],
  queryFn: ({ signal }) => need(api.GET("/v1/config/head", { signal })),
});

/** The newest publications, for lists to choose from. */
export const recentPublicationsQuery = queryOptions({
  queryKey: ["config", "publications", "recent"],
  queryFn: async ({ signal }) => (await need(api.GET("/v1/config/publications", { params: { query: { limit: 30 } }, signal }))).items,
});

export const switchesQuery = queryOptions({
  queryKey: ["switch", "list"],
  queryFn: async ({ signal }) => (await need(api.GET("/v1/config/switches", { signal }))).items,
});

/** Sets a switch in the place of the one that was seen, or of none; another one, whose reason was not read, stays. */
export async function setSwitch(kind: SwitchKind, id: string, reason: string, seen: Switch | undefined): Promise<void> {
  const state = kind === "agent" || kind === "all" ? "paused" : "disabled";
  await need(api.PUT("/v1/config/switches/{kind}/{target}", { params: { path: { kind, target: id } }, body: { state, reason, set_at: seen?.at ?? 0 } }));
}

/** Releases the switch that was seen; one that was set again since, for another reason, stays. */
export async function releaseSwitch({ kind, id, at }: Pick<Switch, "kind" | "id" | "at">): Promise<void> {
  await need(api.DELETE("/v1/config/switches/{kind}/{target}", { params: { path: { kind, target: id }, query: { set_at: at } } }));
}

/** What agents did in the last day, in all processes of the store. */
export const runtimeStatsQuery = queryOptions({
  queryKey: ["agent", "stats"],
  queryFn: async ({ signal }) => (await need(api.GET("/v1/agents/runtime-stats", { params: { query: { scope: "all" } }, signal }))).agents,
});

/** The changes of a record, the newest first, and the revision that it had before they were read: what is restored stands over no change that is not listed. */
export function historyQuery(namespace: Namespace, id: string) {
  return queryOptions({
    queryKey: ["audit", "history", namespace, id],
    queryFn: async ({ signal }) => {
      const facts = await loadFacts(namespace, id).catch((gone: unknown) => { if (isGone(gone)) return null; throw gone; });
      const { items } = await need(api.GET("/v1/audit-log", { params: { query: { resource: `${namespace}/${id}`, limit: 100 } }, signal }));
      return { revision: facts?.revision ?? 0, items };
    },
  });
}
