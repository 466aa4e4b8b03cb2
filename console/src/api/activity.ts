/** Follows the server's hints about what changed, and marks what was fetched as stale. A hidden tab keeps no stream. */
import { useEffect } from "react";

import { openStream, readFrames } from "./frames";
import { queryClient, refreshKinds, type ResourceKind } from "./queries";

type Hint = { kind: string; ids: Record<string, string>; status: string | null; at: number };

/** Which resources a hint of a kind makes stale. */
const STALE: Record<string, readonly ResourceKind[]> = {
  // A ticket that is decided shows as a run that goes on.
  run: ["run", "thread", "ticket"],
  ticket: ["ticket", "run"],
  dispatch: ["dispatch", "run", "ticket"],
  config: ["config", "agent", "model", "audit"],
  worker: ["worker", "system"],
  switch: ["switch", "config", "audit"],
};
const RETRY_MS = [500, 1_000, 2_000, 5_000];

async function follow(signal: AbortSignal): Promise<void> {
  for (let failures = 0; !signal.aborted; failures += 1) {
    try {
      const stream = await openStream("/v1/activity/stream", null, signal);
      if (failures > 0) {
        failures = 0;
        // Hints that came while the stream was cut are lost, and the next one may be long in coming.
        void queryClient.invalidateQueries();
      }
      for await (const frame of readFrames(stream)) {
        if (frame.event === "lagged") await queryClient.invalidateQueries();
        else if (frame.event === "hint") await refreshKinds(...(STALE[(frame.data as Hint).kind] ?? []));
      }
    } catch {
      if (signal.aborted) return;
    }
    const wait = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)];
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

export function useActivity(isAllowed: boolean): void {
  useEffect(() => {
    if (!isAllowed) return;
    let stream = new AbortController();
    const adjust = () => {
      stream.abort();
      if (document.hidden) return;
      stream = new AbortController();
      void follow(stream.signal);
    };
    adjust();
    document.addEventListener("visibilitychange", adjust);
    return () => {
      document.removeEventListener("visibilitychange", adjust);
      stream.abort();
    };
  }, [isAllowed]);
}
