/** Gives a pane its session; a conversation that was just begun keeps its own when it gets its address. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useSyncExternalStore } from "react";

import { fetchDecided, fetchTickets, makeThreadId } from "./requests";
import { ChatSession, type SessionState } from "./session";
import type { Ticket } from "./types";

const begun = new Map<string, ChatSession>();

function takeSession(threadId: string | undefined): ChatSession {
  if (threadId !== undefined) return begun.get(threadId) ?? new ChatSession(threadId);
  const session = new ChatSession(makeThreadId());
  begun.set(session.threadId, session);
  return session;
}

export function useSession(threadId: string | undefined): { session: ChatSession; state: SessionState } {
  // A conversation without an address yet is known by the session that it began with.
  const session = useMemo(() => takeSession(threadId), [threadId]);
  useEffect(() => {
    if (threadId !== undefined && !session.isFollowing) void session.open();
    return () => {
      if (threadId === undefined && session.isFollowing) return;
      session.close();
      begun.delete(session.threadId);
    };
  }, [session, threadId]);
  return { session, state: useSyncExternalStore(session.subscribe, session.snapshot) };
}

const NONE: ReadonlyMap<string, unknown> = new Map();
export const keyOfEdit = (runId: string, callId: string): string => `${runId}/${callId}`;

/** The arguments with which calls were made after a person had edited them, by run and call: events and messages have what the agent asked for. */
export function listEdits(decided: readonly Ticket[]): ReadonlyMap<string, unknown> {
  return new Map(decided.flatMap((it) => (it.decision?.action !== "resume" || it.decision.arguments == null ? [] : [[keyOfEdit(it.run_id, it.tool_call_id), it.decision.arguments]])));
}

export function useEdits(threadId: string | undefined): ReadonlyMap<string, unknown> {
  const { data = NONE } = useQuery({ queryKey: ["ticket", "thread-edits", threadId], queryFn: async ({ signal }) => listEdits(await fetchDecided(threadId ?? "", signal)), enabled: threadId !== undefined, structuralSharing: false });
  return data;
}

/** The open questions of a thread; hints and the end of a run make them stale. */
export function useTickets(threadId: string | undefined) {
  const { data = [] } = useQuery({ queryKey: ["ticket", "thread", threadId], queryFn: ({ signal }) => fetchTickets(threadId ?? "", signal), enabled: threadId !== undefined, staleTime: 0 });
  return data;
}
