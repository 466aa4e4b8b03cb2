/** Gives a pane its session; a conversation that was just begun keeps its own when it gets its address. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useSyncExternalStore } from "react";

import { fetchTickets, makeThreadId } from "./requests";
import { ChatSession, type SessionState } from "./session";

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

/** The open questions of a thread; hints and the end of a run make them stale. */
export function useTickets(threadId: string | undefined) {
  const { data = [] } = useQuery({ queryKey: ["ticket", "thread", threadId], queryFn: ({ signal }) => fetchTickets(threadId ?? "", signal), enabled: threadId !== undefined, staleTime: 0 });
  return data;
}
