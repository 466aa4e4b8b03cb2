/** Server-sent events over `fetch`, which can send the token; `EventSource` cannot. */
import { createParser } from "eventsource-parser";

import { root } from "./address";
import { send } from "./client";
import { readRefusal } from "./errors";
import { parseExact } from "./exactJson";

export type Frame = { id: string | null; event: string; data: unknown };

/** Yields the frames of a reply until it ends. */
export async function* readFrames(response: Response): AsyncGenerator<Frame> {
  if (!response.ok || response.body === null) throw await readRefusal(response);
  let ready: Frame[] = [];
  const parser = createParser({
    onEvent: (it) => ready.push({ id: it.id ?? null, event: it.event ?? "message", data: parseExact(it.data) }),
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      parser.feed(value);
      const frames = ready;
      ready = [];
      yield* frames;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Opens a stream of the API; `cursor` is the id of the last frame that the page has. */
export function openStream(path: string, cursor: string | null, signal: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (cursor !== null) headers["Last-Event-ID"] = cursor;
  return send(new Request(`${root}${path}`, { headers, signal }));
}
