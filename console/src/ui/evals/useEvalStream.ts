/** Follows an eval that goes on: its items are there as soon as they are scored, whichever process scores them. */
import { useEffect } from "react";

import type { Schemas } from "../../api/client";
import { itemsQuery, readItem, type EvalItem } from "../../api/evals";
import { openStream, readFrames } from "../../api/frames";
import { queryClient, refreshKinds } from "../../api/queries";

const RETRY_MS = 1_000;

async function follow(id: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      const found = new Map<number, EvalItem>();
      for await (const frame of readFrames(await openStream(`/v1/evals/${encodeURIComponent(id)}/stream`, null, signal))) {
        if (frame.event === "item") {
          const item = readItem(frame.data as Schemas["EvalItem"]);
          found.set(item.number, item);
        } else if (frame.event === "progress") {
          queryClient.setQueryData(itemsQuery(id).queryKey, [...found.values()].sort((a, b) => a.number - b.number));
          void queryClient.invalidateQueries({ queryKey: ["eval", "figures", id] });
        } else if (frame.event === "end") {
          return await refreshKinds("eval");
        }
      }
    } catch {
      if (signal.aborted) return;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

export function useEvalStream(id: string, isLive: boolean): void {
  useEffect(() => {
    if (!isLive) return;
    const stream = new AbortController();
    void follow(id, stream.signal);
    return () => stream.abort();
  }, [id, isLive]);
}
