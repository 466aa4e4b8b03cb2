/** The cache of what was fetched. The first part of a key names the kind of resource; hints of the server make kinds stale. */
import { QueryClient, queryOptions } from "@tanstack/react-query";

import { api, need } from "./client";
import { ApiError } from "./errors";
import { readAll } from "./readAll";

/** A resource on the screen is fetched again after this long, hints or not. */
const REFETCH_MS = 30_000;

export type ResourceKind =
  | "run" | "ticket" | "dispatch" | "thread" | "agent" | "config" | "worker" | "model" | "usage" | "system" | "audit" | "switch" | "schedule" | "memory" | "dataset" | "eval";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // The server may be this machine: whether it can be reached is found by asking it, not by the browser's word on the network.
      networkMode: "always",
      staleTime: 5_000,
      refetchInterval: REFETCH_MS,
      refetchOnWindowFocus: true,
      // Reads are repeated when the server was not reached or failed; a refusal is an answer.
      retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status < 500),
    },
    mutations: { networkMode: "always", retry: false },
  },
});

export const callerQuery = queryOptions({
  queryKey: ["system", "caller"],
  queryFn: ({ signal }) => need(api.GET("/v1/system/caller", { signal })),
  staleTime: Infinity,
});

export const systemInfoQuery = queryOptions({
  queryKey: ["system", "info"],
  queryFn: ({ signal }) => need(api.GET("/v1/system/info", { signal })),
});

export const agentsQuery = queryOptions({
  queryKey: ["agent", "list"],
  queryFn: ({ signal }) => readAll((query) => need(api.GET("/v1/agents", { signal, params: { query } }))),
});

/** Marks kinds of resources as stale; what is on the screen is fetched again. */
export function refreshKinds(...kinds: ResourceKind[]): Promise<void> {
  return queryClient.invalidateQueries({ predicate: ({ queryKey }) => kinds.includes(queryKey[0] as ResourceKind) });
}
