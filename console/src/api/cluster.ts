/** The cluster as the server sees it: its nodes, what waits and what is held, what carries signals, and what is wrong. */
import { queryOptions } from "@tanstack/react-query";

import { api, need, type Schemas } from "./client";

export type Cluster = Schemas["ClusterStatus"];
export type ClusterNode = Schemas["ClusterNode"];

/** How often a node renews its lease, or reports itself. */
export const BEAT_MS = 5_000;

export const clusterQuery = queryOptions({
  queryKey: ["worker", "cluster"],
  queryFn: ({ signal }) => need(api.GET("/v1/system/cluster", { signal })),
  refetchInterval: BEAT_MS,
});

export const scaleQuery = queryOptions({
  queryKey: ["worker", "scale"],
  queryFn: ({ signal }) => need(api.GET("/v1/system/scale", { signal })),
  refetchInterval: BEAT_MS,
});

/** What processes report of themselves: their publication, their agents, how late their event loops are. */
export const workersQuery = queryOptions({
  queryKey: ["worker", "list"],
  queryFn: async ({ signal }) => (await need(api.GET("/v1/system/workers", { signal }))).items,
});
