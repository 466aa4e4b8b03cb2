/** Reads the log of a thread from its beginning, and follows it from where it ended. */
import { useEffect, useState } from "react";

import { api, need } from "../../api/client";
import { ApiError } from "../../api/errors";
import { openStream, readFrames } from "../../api/frames";

export type LogRow = { seq: number; event: { event_type?: unknown } & Record<string, unknown>; at: number | null };
export type LogState = "catchingUp" | "live" | "cut" | "stopped";
type Log = { rows: readonly LogRow[]; state: LogState; error: unknown; hasMore: boolean };

const PAGE = 200;
/** A longer log waits for a person who wants more of it. */
const FIRST_ROWS = 2_000;
const RETRY_MS = 2_000;
const START: Log = { rows: [], state: "catchingUp", error: null, hasMore: false };

async function wait(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

/** Adds rows to a log; those that it has already are left out. */
export function appendRows(rows: readonly LogRow[], more: readonly LogRow[]): readonly LogRow[] {
  const last = rows.at(-1)?.seq ?? 0;
  const fresh = more.filter((it) => it.seq > last);
  return fresh.length === 0 ? rows : [...rows, ...fresh];
}

/** Reads pages up to a number of rows; returns the place after the last one, and whether there is more. */
async function readPages(threadId: string, from: string | undefined, limit: number, add: (rows: LogRow[]) => void, signal: AbortSignal): Promise<{ cursor: string | undefined; hasMore: boolean }> {
  let cursor = from;
  for (let read = 0; read < limit; read += PAGE) {
    const query = { cursor: cursor === undefined ? undefined : Number(cursor), limit: PAGE };
    const page = await need(api.GET("/v1/threads/{thread_id}/events", { signal, params: { path: { thread_id: threadId }, query } }));
    add(page.items.map((it) => ({ seq: it.seq, event: it.event as unknown as LogRow["event"], at: it.created_at })));
    cursor = page.next_cursor ?? cursor;
    if (!page.has_more) return { cursor, hasMore: false };
  }
  return { cursor, hasMore: true };
}

async function follow(threadId: string, from: string | undefined, set: (change: (log: Log) => Log) => void, signal: AbortSignal): Promise<void> {
  let cursor = from ?? "0";
  while (!signal.aborted) {
    try {
      const response = await openStream(`/v1/threads/${encodeURIComponent(threadId)}/events/stream?cursor=${cursor}`, null, signal);
      set((log) => ({ ...log, state: "live" }));
      for await (const frame of readFrames(response)) {
        // A frame with an id closes a commit; the frames before it, such as parts of a text, are not what the log keeps.
        if (frame.id === null || !(Number(frame.id) > Number(cursor))) continue;
        const read = await readPages(threadId, cursor, Infinity, (rows) => set((log) => ({ ...log, rows: appendRows(log.rows, rows) })), signal);
        cursor = read.cursor ?? cursor;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status < 500) { set((log) => ({ ...log, error })); return; }
    }
    if (signal.aborted) return;
    set((log) => ({ ...log, state: "cut" }));
    await wait(RETRY_MS, signal);
  }
}

export function useThreadLog(threadId: string): Log & { loadMore: () => void } {
  const [log, setLog] = useState<Log>(START);
  const [limit, setLimit] = useState(FIRST_ROWS);
  useEffect(() => {
    const stop = new AbortController();
    const set = (change: (log: Log) => Log) => { if (!stop.signal.aborted) setLog(change); };
    const run = async () => {
      setLog(START);
      const { cursor, hasMore } = await readPages(threadId, undefined, limit, (rows) => set((now) => ({ ...now, rows: appendRows(now.rows, rows) })), stop.signal);
      set((now) => ({ ...now, hasMore, state: hasMore ? "stopped" : now.state }));
      if (!hasMore) await follow(threadId, cursor, set, stop.signal);
    };
    run().catch((error: unknown) => set((now) => ({ ...now, error })));
    return () => stop.abort();
  }, [threadId, limit]);
  return { ...log, loadMore: () => setLimit((it) => it * 5) };
}
