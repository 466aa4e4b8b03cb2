/** The requests of the chat. */
import { queryOptions } from "@tanstack/react-query";

import { root } from "../../api/address";
import { api, makeId, need, send, type Schemas } from "../../api/client";
import { readRefusal } from "../../api/errors";
import { writeExact } from "../../api/exactJson";
import type { JsonObject, JsonSchema } from "../../ui/schema/model";
import type { Part, Run, StoredMessage } from "./types";

const PAGE = 200;
export type MessagePage = { items: StoredMessage[]; next_cursor: string | null };
export type NewTurn = { id: string; threadId: string; agentId: string; parts: readonly Part[]; publication?: number; model?: string; context?: JsonObject; onBusy: "queue" | "interrupt" };

const path = (threadId: string) => ({ thread_id: threadId });

/** Stored messages, newest page first; each page is given oldest first. */
export async function fetchMessages(threadId: string, cursor: string | undefined, signal?: AbortSignal): Promise<MessagePage> {
  const query = { order: "desc", limit: PAGE, cursor };
  const page = await need(api.GET("/v1/threads/{thread_id}/messages", { params: { path: path(threadId), query: query as never }, signal })) as unknown as MessagePage;
  return { items: [...page.items].reverse(), next_cursor: page.next_cursor };
}

export async function fetchRuns(threadId: string, signal?: AbortSignal): Promise<Run[]> {
  const page = await need(api.GET("/v1/threads/{thread_id}/runs", { params: { path: path(threadId), query: { order: "desc", kind: "any", limit: PAGE } }, signal }));
  return page.items;
}

/** The cursor just before a run's first event. `null`: the log does not have it. */
export async function findRunCursor(runId: string, signal?: AbortSignal): Promise<string | null> {
  const page = await need(api.GET("/v1/runs/{run_id}/events", { params: { path: { run_id: runId }, query: { limit: 1 } }, signal })) as unknown as { items: { seq: number }[] };
  const first = page.items[0];
  return first === undefined ? null : String(first.seq - 1);
}

/** The models that may answer for an agent. */
export const modelsQuery = (agentId: string, publication: number | undefined) => queryOptions({
  queryKey: ["agent", "models", agentId, publication],
  queryFn: ({ signal }) => need(api.GET("/v1/agents/{agent_id}/models", { params: { path: { agent_id: agentId }, query: { publication } }, signal })),
});

/** The schema of an agent's context; `null` if any JSON object will do. */
export const contextSchemaQuery = (agentId: string) => queryOptions({
  queryKey: ["agent", "context", agentId],
  queryFn: async ({ signal }) => ((await need(api.GET("/v1/agents/{agent_id}", { params: { path: { agent_id: agentId } }, signal }))).context_schema ?? null) as JsonSchema | null,
  enabled: agentId !== "",
});

const TIMELINE_PAGES = 4;
type Ended = { kind: string; call_id?: string | null; outcome?: string | null; children?: readonly Ended[] };

/** How the calls of a run ended, by call: stored results are text and do not say it. */
export async function fetchOutcomes(runId: string, signal?: AbortSignal): Promise<Map<string, string>> {
  const outcomes = new Map<string, string>();
  const take = (span: Ended) => {
    if (span.kind === "tool" && span.call_id != null && span.outcome != null) outcomes.set(span.call_id, span.outcome);
    span.children?.forEach(take);
  };
  let cursor: number | undefined;
  for (let page = 0; page < TIMELINE_PAGES; page += 1) {
    const read = await need(api.GET("/v1/runs/{run_id}/timeline", { params: { path: { run_id: runId }, query: { cursor } }, signal }));
    read.spans?.forEach(take);
    if (read.next_cursor == null) break;
    cursor = read.next_cursor;
  }
  return outcomes;
}

function makeContent(parts: readonly Part[]): string | readonly Part[] {
  const [only, ...others] = parts;
  return only?.type === "text" && others.length === 0 ? only.text : parts;
}

/** Starts a run and leaves its stream: the page reads the thread's. The key makes the request safe to repeat after a cut. */
export async function startRun({ id, threadId, agentId, parts, publication, model, context, onBusy }: NewTurn): Promise<string> {
  const body = { agent_id: agentId, thread_id: threadId, on_busy: onBusy, publication, model, context, messages: [{ role: "user", id, content: makeContent(parts) }] };
  const response = await send(new Request(`${root}/v1/runs`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "text/event-stream", "Idempotency-Key": `chat-${id}` },
    body: writeExact(body),
  }));
  if (!response.ok) throw await readRefusal(response);
  await response.body?.cancel();
  return response.headers.get("X-Run-Id") ?? "";
}

/** Sends a message into the run that executes; it is read before the next step. */
export async function steerRun({ id, threadId, agentId, parts }: NewTurn): Promise<string> {
  const body = { mode: "steer", agent_id: agentId, messages: [{ role: "user", id, content: makeContent(parts) }] };
  const receipt = await need(api.POST("/v1/threads/{thread_id}/messages", { params: { path: path(threadId), header: { "Idempotency-Key": `chat-${id}` } as never }, body: body as never }));
  return (receipt as { run_id?: string }).run_id ?? "";
}

export type StopReceipt = { status: string; thread_id: string };

export async function stopThread(threadId: string, isInterrupt: boolean): Promise<StopReceipt> {
  const params = { params: { path: path(threadId) } };
  const answer = isInterrupt ? need(api.POST("/v1/threads/{thread_id}/interrupt", params)) : need(api.POST("/v1/threads/{thread_id}/cancel", params));
  return (await answer) as unknown as StopReceipt;
}

export async function fetchTickets(threadId: string, signal?: AbortSignal): Promise<Schemas["TicketView"][]> {
  return (await need(api.GET("/v1/threads/{thread_id}/tickets", { params: { path: path(threadId), query: { limit: 100 } }, signal }))).items;
}

/** The newest decisions of a thread. */
export async function fetchDecided(threadId: string, signal?: AbortSignal): Promise<Schemas["TicketView"][]> {
  return (await need(api.GET("/v1/threads/{thread_id}/tickets", { params: { path: path(threadId), query: { status: "decided", limit: 100 } as never }, signal }))).items;
}

/** Makes a thread with the messages before one; this one stays. */
export async function forkBefore(threadId: string, messageId: string): Promise<string> {
  const made = await need(api.POST("/v1/threads/{thread_id}/fork", { params: { path: path(threadId) }, body: { before: messageId } as never }));
  return (made as { id: string }).id;
}

const TITLE_CHARS = 80;

/** Gives a new conversation its first words as a title, so that the list of them can be read. */
export async function nameThread(threadId: string, text: string): Promise<void> {
  const title = text.trim().split("\n")[0]?.slice(0, TITLE_CHARS) ?? "";
  if (title === "") return;
  await need(api.PATCH("/v1/threads/{thread_id}", { params: { path: path(threadId) }, body: { title } as never }));
}

export const makeThreadId = (): string => `chat-${makeId().slice(0, 20)}`;
export const makeMessageId = (): string => `msg-${makeId().slice(0, 20)}`;
