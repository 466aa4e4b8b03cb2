/**
 * Follows the server's hints about what changed, and marks what was fetched as stale.
 *
 * A browser opens six connections to a server at most, for all of its tabs together. So one visible tab follows the stream and tells the others; a hidden
 * tab keeps none.
 */
import { useEffect } from "react";

import { root } from "./address";
import { openStream, readFrames } from "./frames";
import { queryClient, refreshKinds, type ResourceKind } from "./queries";
import { currentToken } from "./token";

type Hint = { kind: string; ids: Record<string, string>; status: string | null; at: number };
/** The kinds that are stale; null: all of them. */
type News = readonly ResourceKind[] | null;

/** Which resources a hint of a kind makes stale. */
const STALE: Record<string, readonly ResourceKind[]> = {
  // A ticket that is decided shows as a run that goes on.
  run: ["run", "thread", "ticket", "schedule"],
  ticket: ["ticket", "run"],
  dispatch: ["dispatch", "run", "ticket"],
  config: ["config", "agent", "model", "audit"],
  worker: ["worker", "system"],
  switch: ["switch", "config", "audit"],
  eval: ["eval"],
};
/** How the ids of the threads of samples begin: what they do changes their eval, also one that another process drives. */
const SAMPLE = "eval:";
const RETRY_MS = [500, 1_000, 2_000, 5_000];

function listStale({ kind, ids }: Hint): readonly ResourceKind[] {
  const kinds = STALE[kind] ?? [];
  return ids.thread_id?.startsWith(SAMPLE) === true ? [...kinds, "eval"] : kinds;
}

function applyNews(news: News): Promise<void> {
  return news === null ? queryClient.invalidateQueries() : refreshKinds(...news);
}

/** Tabs share a stream if they ask the same server with the same token. */
function nameShared(): string {
  let hash = 0;
  for (const character of currentToken() ?? "") hash = (hash * 31 + character.charCodeAt(0)) | 0;
  return `awaken.activity.${root}.${hash}`;
}

async function follow(tell: (news: News) => Promise<void>, isLate: boolean, signal: AbortSignal): Promise<void> {
  let isMissing = isLate;
  for (let failures = 0; !signal.aborted; failures += 1) {
    try {
      const response = await openStream("/v1/activity/stream", null, signal);
      if (response.ok && isMissing) await tell(null);
      // Hints that come while the stream is cut are lost.
      isMissing = true;
      for await (const frame of readFrames(response)) {
        failures = 0;
        if (frame.event === "lagged") await tell(null);
        else if (frame.event === "hint") await tell(listStale(frame.data as Hint));
      }
    } catch {
      if (signal.aborted) return;
    }
    const wait = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)];
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

/** Follows the stream, or hears from the tab that does, until the signal. */
async function share(signal: AbortSignal): Promise<void> {
  const name = nameShared();
  const channel = new BroadcastChannel(name);
  channel.onmessage = (event: MessageEvent<News>) => void applyNews(event.data);
  signal.addEventListener("abort", () => channel.close(), { once: true });
  const tell = (news: News) => {
    if (!signal.aborted) channel.postMessage(news);
    return applyNews(news);
  };
  // Locks exist on secure origins only; elsewhere each tab follows by itself.
  const locks = navigator.locks as LockManager | undefined;
  if (locks === undefined) return follow(applyNews, false, signal);
  const asked = performance.now();
  await locks.request(name, { signal }, () => follow(tell, performance.now() - asked > RETRY_MS[0]!, signal)).catch(() => undefined);
}

export function useActivity(isAllowed: boolean): void {
  useEffect(() => {
    if (!isAllowed) return;
    let stream = new AbortController();
    const adjust = () => {
      stream.abort();
      if (document.hidden) return;
      stream = new AbortController();
      void share(stream.signal);
    };
    adjust();
    document.addEventListener("visibilitychange", adjust);
    return () => {
      document.removeEventListener("visibilitychange", adjust);
      stream.abort();
    };
  }, [isAllowed]);
}
