/** What the first page asks for. Each part is its own request, so that one that fails or is not allowed hides only itself. */
import { queryOptions } from "@tanstack/react-query";

import { root } from "../../api/address";
import { api, need, send } from "../../api/client";
import { readNow } from "../../api/clock";
import type { Counted, Health } from "./types";

const DAY_MS = 86_400_000;
const COUNTED = 100;

export const healthQuery = queryOptions({
  queryKey: ["system", "health"],
  // A server that is not healthy answers 503 with the same body.
  queryFn: async ({ signal }) => (await (await send(new Request(`${root}/health`, { signal }))).json()) as Health,
});

export const summaryQuery = queryOptions({ queryKey: ["run", "summary"], queryFn: ({ signal }) => need(api.GET("/v1/runs/summary", { signal })) });

async function countRuns(filter: Record<string, unknown>, signal: AbortSignal): Promise<number> {
  const query = { limit: 1, total: true, order: "desc", ...filter };
  return (await need(api.GET("/v1/runs", { params: { query: query as never }, signal }))).total ?? 0;
}

export const dayQuery = queryOptions({
  queryKey: ["run", "day"],
  queryFn: async ({ signal }) => {
    const since = readNow() - DAY_MS;
    const [started, ended, errors, blocked] = await Promise.all([
      countRuns({ since }, signal), countRuns({ since, status: "done" }, signal), countRuns({ since, ended: "error" }, signal), countRuns({ since, ended: "blocked" }, signal),
    ]);
    return { started, ended, failed: errors + blocked };
  },
});

export const recentQuery = queryOptions({
  queryKey: ["run", "recent"],
  queryFn: async ({ signal }) => (await need(api.GET("/v1/runs", { params: { query: { limit: 6, order: "desc" } as never }, signal }))).items,
});

type Listed = { items: unknown[]; next_cursor?: string | null };
const count = (page: Listed): Counted => ({ count: page.items.length, isMore: page.next_cursor !== null && page.next_cursor !== undefined });

export const deadQuery = queryOptions({
  queryKey: ["dispatch", "dead"],
  queryFn: async ({ signal }) => {
    const [letters, outbox] = await Promise.all([
      need(api.GET("/v1/dispatches", { params: { query: { status: "dead_letter", limit: COUNTED } as never }, signal })),
      need(api.GET("/v1/outbox/dead", { params: { query: { limit: COUNTED } as never }, signal })),
    ]);
    return { letters: count(letters as unknown as Listed), outbox: count(outbox as unknown as Listed) };
  },
});

export const modelsQuery = queryOptions({
  queryKey: ["model", "states"],
  queryFn: async ({ signal }) => (await need(api.GET("/v1/system/models", { signal }))).items,
});

export const spendQuery = queryOptions({
  queryKey: ["usage", "today"],
  queryFn: async ({ signal }) => {
    const from = Math.floor(readNow() / DAY_MS) * DAY_MS;
    const [usage, budgets] = await Promise.all([
      need(api.GET("/v1/usage", { params: { query: { from } as never }, signal })),
      need(api.GET("/v1/budgets", { signal })),
    ]);
    return { total: usage.total, budgets: budgets.items };
  },
});

export const publicationsQuery = queryOptions({
  queryKey: ["config", "publications", "last"],
  queryFn: async ({ signal }) => (await need(api.GET("/v1/config/publications", { params: { query: { limit: 5 } }, signal }))).items,
});
