/** What the page of a thread reads. */
import { queryOptions } from "@tanstack/react-query";

import { api, need } from "../../api/client";

const path = (threadId: string) => ({ thread_id: threadId });

export const threadQuery = (threadId: string) => queryOptions({
  queryKey: ["thread", "one", threadId],
  queryFn: ({ signal }) => need(api.GET("/v1/threads/{thread_id}", { signal, params: { path: path(threadId) } })),
});

/** The runs of a thread, newest first. */
export const runsQuery = (threadId: string) => queryOptions({
  queryKey: ["run", "of-thread", threadId],
  queryFn: ({ signal }) => need(api.GET("/v1/threads/{thread_id}/runs", { signal, params: { path: path(threadId), query: { order: "desc", kind: "any", limit: 200, total: true } } })),
});

export const ticketsQuery = (threadId: string) => queryOptions({
  queryKey: ["ticket", "of-thread", threadId],
  queryFn: ({ signal }) => need(api.GET("/v1/threads/{thread_id}/tickets", { signal, params: { path: path(threadId), query: { limit: 200, total: true } } })),
});

/** The threads that runs of this one began. */
export const childrenQuery = (threadId: string) => queryOptions({
  queryKey: ["thread", "children", threadId],
  queryFn: ({ signal }) => need(api.GET("/v1/threads/summaries", { signal, params: { query: { parent_thread_id: threadId, limit: 200, total: true } } })),
});

/** The forks of a thread, among the threads that changed last. */
export const forksQuery = (threadId: string) => queryOptions({
  queryKey: ["thread", "forks", threadId],
  queryFn: ({ signal }) => need(api.GET("/v1/threads/search", { signal, params: { query: { forked_from: threadId, limit: 100 } } })),
});

/** What the requests of a thread leave out. */
export const contextQuery = (threadId: string) => queryOptions({
  queryKey: ["thread", "context", threadId],
  queryFn: ({ signal }) => need(api.GET("/v1/threads/{thread_id}/context", { signal, params: { path: path(threadId) } })),
});

export const mailboxQuery = (threadId: string) => queryOptions({
  queryKey: ["dispatch", "of-thread", threadId],
  queryFn: ({ signal }) => need(api.GET("/v1/threads/{thread_id}/mailbox", { signal, params: { path: path(threadId), query: { limit: 200, total: true } } })),
});

/** How many messages a thread has. */
export const messageCountQuery = (threadId: string) => queryOptions({
  queryKey: ["thread", "message-count", threadId],
  queryFn: async ({ signal }) => (await need(api.GET("/v1/threads/{thread_id}/messages", { signal, params: { path: path(threadId), query: { limit: 1, total: true } } }))).total ?? 0,
});
