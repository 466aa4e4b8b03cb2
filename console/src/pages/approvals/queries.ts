/** What the inbox reads, and decisions on several tickets. */
import { queryOptions } from "@tanstack/react-query";

import { api, need, type Schemas } from "../../api/client";
import { settleDecision, type Ticket } from "../../api/decisions";
import { isForPerson } from "../../api/openTickets";
import { refreshKinds } from "../../api/queries";

const PAGE = 200;
const PAGES_MAX = 10;
const SHOWN_MESSAGES = 6;

/** Every open ticket: a batch must not miss one because it is on a later page. */
export const openTicketsQuery = queryOptions({
  queryKey: ["ticket", "open"],
  queryFn: async ({ signal }) => {
    const found: Ticket[] = [];
    let cursor: string | null | undefined;
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const listed = await need(api.GET("/v1/tickets", { signal, params: { query: { limit: PAGE, cursor } } }));
      found.push(...listed.items.filter(isForPerson));
      if (!listed.has_more) return { tickets: found, hasMore: false };
      cursor = listed.next_cursor;
    }
    return { tickets: found, hasMore: true };
  },
});

/** The agents of the runs that wait, by run. */
export const waitingAgentsQuery = queryOptions({
  queryKey: ["run", "waiting-agents"],
  queryFn: async ({ signal }) => {
    const agents = new Map<string, string>();
    let cursor: string | null | undefined;
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const query = { status: "waiting", kind: "any", order: "desc", limit: PAGE, cursor } as const;
      const listed = await need(api.GET("/v1/runs", { signal, params: { query } }));
      for (const it of listed.items) agents.set(it.run_id, it.active_agent_id ?? it.agent_id);
      if (listed.has_more !== true) break;
      cursor = listed.next_cursor;
    }
    return agents;
  },
});

/** The last messages of a thread, oldest first. */
export const lastMessagesQuery = (threadId: string) => queryOptions({
  queryKey: ["thread", "last-messages", threadId],
  queryFn: async ({ signal }) => {
    const params = { path: { thread_id: threadId }, query: { order: "desc", limit: SHOWN_MESSAGES } } as const;
    return (await need(api.GET("/v1/threads/{thread_id}/messages", { signal, params }))).items.toReversed();
  },
});

/** Decides on several tickets at once, each on the arguments that were shown. */
export async function decideTickets(tickets: readonly Ticket[], action: "resume" | "cancel", reason: string): Promise<readonly Schemas["BatchReceipt"][]> {
  const body: Schemas["RunBatch"] = {
    action: "decide",
    ids: tickets.map((it) => it.ticket_id),
    filter: null,
    dry_run: false,
    decision: {
      action,
      reason: reason.trim() === "" ? null : reason.trim(),
      result: action === "resume" ? true : null,
      arguments_hashes: Object.fromEntries(tickets.map((it) => [it.ticket_id, it.arguments_hash])),
    },
  };
  return (await settleDecision(need(api.POST("/v1/batch", { body })))).items;
}

export const rememberedQuery = (threadId: string | undefined) => queryOptions({
  queryKey: ["ticket", "remembered", threadId ?? ""],
  queryFn: async ({ signal }) => (await need(api.GET("/v1/remembered-answers", { signal, params: { query: { thread_id: threadId } } }))).items,
});

export async function forgetAnswer(answerId: string, threadId: string | undefined): Promise<void> {
  await need(api.DELETE("/v1/remembered-answers/{answer_id}", { params: { path: { answer_id: answerId }, query: { thread_id: threadId } } }));
  await refreshKinds("ticket");
}
