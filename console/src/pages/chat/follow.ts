/** Follows the log of a thread through any cut: each attempt goes on after the last durable event that the page has. */
import { ApiError } from "../../api/errors";
import { openStream, readFrames } from "../../api/frames";
import type { LogFrame } from "./fold";
import type { RunEvent } from "./types";

export type LinkState = "catching up" | "live" | "cut";
export type Follower = {
  /** The cursor from which the next attempt goes on; what is not durable is dropped before it is asked. */
  rewind: () => string | null;
  take: (frames: readonly LogFrame[]) => void;
  note: (state: LinkState) => void;
  /** The log no longer has the cursor: the page has to load anew. */
  expire: () => void;
};

const RETRY_MS = [250, 500, 1_000, 2_000, 4_000];
/** A stream that has been quiet for this long has given all that it had. */
const QUIET_MS = 150;

/** Text that grows twenty times in a second reads as if it flowed; more often costs and shows nothing. */
const APART_MS = 45;

/** Gathers frames and hands them over with a frame of the screen, none sooner than `APART_MS` after the one before. */
export function makeBatcher(take: (frames: readonly LogFrame[]) => void): { add: (frame: LogFrame) => void; flush: () => void } {
  let waiting: LogFrame[] = [];
  let isScheduled = false;
  let latest = 0;
  const flush = () => {
    isScheduled = false;
    latest = performance.now();
    const frames = waiting;
    waiting = [];
    if (frames.length > 0) take(frames);
  };
  const add = (frame: LogFrame) => {
    waiting.push(frame);
    if (isScheduled) return;
    isScheduled = true;
    // A hidden page gets no animation frames.
    const wait = APART_MS - (performance.now() - latest);
    if (document.hidden) setTimeout(flush, 200);
    else if (wait > 0) setTimeout(() => (isScheduled ? requestAnimationFrame(flush) : undefined), wait);
    else requestAnimationFrame(flush);
  };
  return { add, flush };
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

async function readOnce(threadId: string, follower: Follower, signal: AbortSignal): Promise<void> {
  const batcher = makeBatcher(follower.take);
  const response = await openStream(`/v1/threads/${encodeURIComponent(threadId)}/events/stream`, follower.rewind(), signal);
  if (response.ok) follower.note("catching up");
  let quiet = setTimeout(() => response.ok && follower.note("live"), QUIET_MS);
  try {
    for await (const frame of readFrames(response)) {
      batcher.add({ id: frame.id === "" ? null : frame.id, event: frame.data as RunEvent });
      clearTimeout(quiet);
      quiet = setTimeout(() => follower.note("live"), QUIET_MS);
    }
  } finally {
    clearTimeout(quiet);
    batcher.flush();
  }
}

export async function followThread(threadId: string, follower: Follower, signal: AbortSignal): Promise<void> {
  for (let failures = 0; !signal.aborted; failures += 1) {
    const began = Date.now();
    try {
      await readOnce(threadId, follower, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && (error.status === 410 || error.code === "cursor_invalid")) return follower.expire();
      if (error instanceof ApiError && (error.status === 401 || error.status === 403)) throw error;
    }
    if (signal.aborted) return;
    follower.note("cut");
    if (Date.now() - began > 5_000) failures = 0;
    await wait(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)] ?? 4_000, signal);
  }
}
