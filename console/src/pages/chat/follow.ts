/** Follows the log of a thread while the page is visible, through any cut: each attempt goes on after the last durable event that the page has. */
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
    // A page that is being hidden gets no animation frames.
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

/** A signal that follows another and ends with `stop`. */
function linkSignal(outer: AbortSignal): { signal: AbortSignal; stop: () => void } {
  const inner = new AbortController();
  const stop = () => { inner.abort(); outer.removeEventListener("abort", stop); };
  outer.addEventListener("abort", stop, { once: true });
  if (outer.aborted) stop();
  return { signal: inner.signal, stop };
}

/** Waits until the page can be seen: a hidden tab keeps no stream, because a browser has six connections to a server for all of its tabs. */
function waitVisible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (!document.hidden || signal.aborted) return resolve();
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check, { once: true });
  });
}

/** How many threads the tabs of a browser follow at once; the others ask again and again. Some connections must be left for requests. */
const SLOTS = ["awaken.thread-stream.1", "awaken.thread-stream.2", "awaken.thread-stream.3"];
const ASK_AGAIN_MS = 1_500;

/** Works with one of the slots, or without if all are taken. */
async function withSlot(work: (hasSlot: boolean) => Promise<void>): Promise<void> {
  // Locks exist on secure origins only.
  const locks = navigator.locks as LockManager | undefined;
  if (locks === undefined) return work(true);
  for (const slot of SLOTS) {
    const isDone = await locks.request(slot, { ifAvailable: true }, async (lock) => {
      if (lock !== null) await work(true);
      return lock !== null;
    });
    if (isDone) return;
  }
  await work(false);
}

/** Reads until the stream ends or the page is hidden; without a slot, until the stream has given all that it had. */
async function readOnce(threadId: string, follower: Follower, outer: AbortSignal, hasSlot: boolean): Promise<void> {
  const batcher = makeBatcher(follower.take);
  const { signal, stop } = linkSignal(outer);
  const onHide = () => { if (document.hidden) stop(); };
  document.addEventListener("visibilitychange", onHide);
  let quiet: ReturnType<typeof setTimeout> | undefined;
  try {
    const response = await openStream(`/v1/threads/${encodeURIComponent(threadId)}/events/stream`, follower.rewind(), signal);
    const rest = () => {
      follower.note("live");
      if (!hasSlot) stop();
    };
    if (response.ok) {
      follower.note("catching up");
      quiet = setTimeout(rest, QUIET_MS);
    }
    for await (const frame of readFrames(response)) {
      batcher.add({ id: frame.id === "" ? null : frame.id, event: frame.data as RunEvent });
      clearTimeout(quiet);
      quiet = setTimeout(rest, QUIET_MS);
    }
  } catch (error) {
    // What the page itself ended has not failed.
    if (!signal.aborted || outer.aborted) throw error;
  } finally {
    document.removeEventListener("visibilitychange", onHide);
    clearTimeout(quiet);
    batcher.flush();
    stop();
  }
}

export async function followThread(threadId: string, follower: Follower, signal: AbortSignal): Promise<void> {
  for (let failures = 0; !signal.aborted; failures += 1) {
    await waitVisible(signal);
    const began = Date.now();
    let isOnPurpose = false;
    try {
      await withSlot(async (hasSlot) => {
        await readOnce(threadId, follower, signal, hasSlot);
        isOnPurpose = !hasSlot || document.hidden;
      });
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && (error.status === 410 || error.code === "cursor_invalid")) return follower.expire();
      if (error instanceof ApiError && (error.status === 401 || error.status === 403)) throw error;
    }
    if (signal.aborted) return;
    if (isOnPurpose) {
      failures = 0;
      if (!document.hidden) await wait(ASK_AGAIN_MS, signal);
      continue;
    }
    follower.note("cut");
    if (Date.now() - began > 5_000) failures = 0;
    await wait(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)] ?? 4_000, signal);
  }
}
