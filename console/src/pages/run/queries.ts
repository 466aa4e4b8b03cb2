/** What the page of a run fetches. */
import { queryOptions, useQueries, useQuery } from "@tanstack/react-query";

import { api, need, type Schemas } from "../../api/client";
import { queryClient } from "../../api/queries";
import { appendSpans, lastSeq, type ChildTimeline, type Span } from "./waterfall";

export type Run = Schemas["RunView"];
export type Ticket = Schemas["TicketView"];

export function runQuery(runId: string) {
  return queryOptions({ queryKey: ["run", "one", runId], queryFn: ({ signal }) => need(api.GET("/v1/runs/{run_id}", { params: { path: { run_id: runId } }, signal })) });
}

/** The journal of a workflow's run. */
export function workflowQuery(runId: string) {
  return queryOptions({ queryKey: ["run", "workflow", runId], queryFn: ({ signal }) => need(api.GET("/v1/runs/{run_id}/workflow", { signal, params: { path: { run_id: runId } } })) });
}

export type LoadedTimeline = { startedAt: number | null; endedAt: number | null; spans: readonly Span[]; isWhole: boolean };

/** Loads the timeline page by page and shows each at once; asked again, it loads only what came after the spans that have ended. */
export function timelineQuery(runId: string) {
  const queryKey = ["run", "timeline", runId] as const;
  return queryOptions({
    queryKey,
    queryFn: async ({ signal }): Promise<LoadedTimeline> => {
      let spans = queryClient.getQueryData<LoadedTimeline>(queryKey)?.spans ?? [];
      for (;;) {
        const cursor = lastSeq(spans);
        const page = await need(api.GET("/v1/runs/{run_id}/timeline", { params: { path: { run_id: runId }, query: { cursor } }, signal }));
        spans = appendSpans(spans, page.spans ?? []);
        const startedAt = page.started_at ?? null;
        const endedAt = startedAt === null || page.duration_ms == null ? null : startedAt + page.duration_ms;
        const isWhole = page.next_cursor == null;
        const loaded = { startedAt, endedAt, spans, isWhole };
        if (isWhole) return loaded;
        queryClient.setQueryData(queryKey, loaded);
      }
    },
    // Spans are compared by identity: a deep comparison of thousands would hold the page.
    structuralSharing: false,
  });
}

export function useTimeline(runId: string) {
  return useQuery(timelineQuery(runId));
}

/** The timelines of child runs, by their ids. */
export function useChildTimelines(runIds: readonly string[]): ReadonlyMap<string, ChildTimeline> {
  return useQueries({
    queries: runIds.map((it) => timelineQuery(it)),
    combine: (found) => {
      const map = new Map<string, ChildTimeline>();
      for (const [index, { data }] of found.entries()) {
        const runId = runIds[index];
        if (runId !== undefined && data !== undefined && data.startedAt !== null) map.set(runId, { runId, startedAt: data.startedAt, endedAt: data.endedAt, spans: data.spans });
      }
      return map;
    },
  });
}

export function ticketsQuery(runId: string, isWaiting: boolean) {
  return queryOptions({
    queryKey: ["ticket", "run", runId],
    queryFn: async ({ signal }) => (await need(api.GET("/v1/runs/{run_id}/tickets", { params: { path: { run_id: runId } }, signal }))).items,
    enabled: isWaiting,
  });
}

/** The latest delivery of input to a run: it names the worker, its lease and the attempts. */
export function deliveryQuery(run: Run) {
  return queryOptions({
    queryKey: ["dispatch", "run", run.run_id],
    queryFn: async ({ signal }) => {
      const { items } = await need(api.GET("/v1/dispatches", { params: { query: { thread_id: run.thread_id, limit: 200 } }, signal }));
      return items.findLast((it) => it.run_id === run.run_id || it.taken_by === run.run_id || it.dispatch_id === run.dispatch_id) ?? null;
    },
  });
}

export function messagesQuery(run: Run) {
  return queryOptions({
    queryKey: ["thread", "messages", run.thread_id, run.run_id],
    queryFn: async ({ signal }) => {
      const found: Schemas["MessageRecord"][] = [];
      let cursor: string | undefined;
      do {
        const query = { run_id: run.run_id, visibility: "all", limit: 200, cursor } as const;
        const page = await need(api.GET("/v1/threads/{thread_id}/messages", { params: { path: { thread_id: run.thread_id }, query }, signal }));
        found.push(...page.items);
        cursor = page.next_cursor ?? undefined;
      } while (cursor !== undefined);
      return found;
    },
    structuralSharing: false,
  });
}

export function requestQuery(runId: string, step: number) {
  return queryOptions({
    queryKey: ["run", "request", runId, step],
    queryFn: ({ signal }) => need(api.GET("/v1/runs/{run_id}/steps/{n}/request", { params: { path: { run_id: runId, n: String(step) } }, signal })),
    staleTime: Infinity,
    refetchInterval: false,
    retry: false,
  });
}

/** The events of a stretch of the log, after one place up to another. */
export function eventsQuery(runId: string, after: number, upTo: number) {
  return queryOptions({
    queryKey: ["run", "events", runId, after, upTo],
    queryFn: async ({ signal }) => {
      const limit = Math.max(1, Math.min(200, upTo - after));
      const { items } = await need(api.GET("/v1/runs/{run_id}/events", { params: { path: { run_id: runId }, query: { cursor: after, limit } }, signal }));
      return items.filter((it) => it.seq <= upTo);
    },
    staleTime: Infinity,
    refetchInterval: false,
  });
}

export type State = Schemas["RunState"];

/** The state at the end of a step, and the steps that changed it; without a step the newest. */
export function stateQuery(runId: string, step: number | undefined) {
  return queryOptions({
    queryKey: ["run", "state", runId, step],
    queryFn: ({ signal }) => need(api.GET("/v1/runs/{run_id}/state", { params: { path: { run_id: runId }, query: { step } }, signal })),
  });
}
