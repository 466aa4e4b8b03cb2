/** What the views of a ticket read beside it. */
import { queryOptions } from "@tanstack/react-query";

import { api, need } from "../../api/client";
import type { JsonSchema } from "../schema/model";

export const runQuery = (runId: string) => queryOptions({
  queryKey: ["run", "one", runId],
  queryFn: ({ signal }) => need(api.GET("/v1/runs/{run_id}", { signal, params: { path: { run_id: runId } } })),
});

/** The schema of the tool as the model saw it; null where it cannot be known. */
export const toolSchemaQuery = (runId: string, step: number, tool: string, isAllowed: boolean) => queryOptions({
  queryKey: ["run", "tool-schema", runId, step, tool],
  queryFn: async ({ signal }): Promise<JsonSchema | null> => {
    const found = await need(api.GET("/v1/runs/{run_id}/steps/{n}/request", { signal, params: { path: { run_id: runId, n: String(step) } } }));
    const tools = (found.request as { tools?: unknown } | null)?.tools;
    if (!Array.isArray(tools)) return null;
    const match = (tools as { id?: string; parameters?: JsonSchema }[]).find((it) => it.id === tool);
    return match?.parameters ?? null;
  },
  enabled: isAllowed && step > 0,
  retry: false,
  staleTime: Infinity,
  refetchInterval: false,
});
