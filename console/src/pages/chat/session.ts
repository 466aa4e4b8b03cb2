/** One thread on the screen: its conversation, the link to the server, and what the person does. A store that React subscribes to. */
import { ApiError, NetworkError } from "../../api/errors";
import { refreshKinds } from "../../api/queries";
import type { JsonObject } from "../../ui/schema/model";
import { changeLog, EMPTY, foldFrames, rewind, type Conversation, type Log, type LogFrame, type PendingTurn } from "./fold";
import { followThread, type LinkState } from "./follow";
import { fetchMessages, fetchOutcomes, fetchRuns, findRunCursor, makeMessageId, startRun, steerRun, stopThread, type StopReceipt } from "./requests";
import { listUnsettledRuns, makeTurns, mergeStored, prependStored, settleCalls } from "./stored";
import type { Part, RunEvent } from "./types";

export type RawEvent = { id: string | null; at: number; event: RunEvent };
export type SessionState = {
  conversation: Conversation;
  link: LinkState | "none";
  isLoading: boolean;
  /** Why the thread could not be loaded. */
  failure: unknown;
  hasEarlier: boolean;
  cursor: string | null;
  /** How many raw events there are; they are kept apart, because they only grow. */
  rawCount: number;
};
export type Sending = { agentId: string; parts: readonly Part[]; publication?: number; model?: string; context?: JsonObject; mode: PendingTurn["mode"] };

const RAW_LIMIT = 20_000;
const RESEND_MS = 1_500;
/** The ends of this many runs are read for one page of messages. */
const SETTLED_RUNS = 30;
const NOTHING: SessionState = { conversation: EMPTY, link: "none", isLoading: false, failure: null, hasEarlier: false, cursor: null, rawCount: 0 };

export class ChatSession {
  private state = NOTHING;
  private log: Log = { shown: EMPTY, settled: EMPTY, cursor: null };
  private raw: RawEvent[] = [];
  private earlier: string | null = null;
  private listeners = new Set<() => void>();
  private following: AbortController | null = null;

  constructor(readonly threadId: string) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };
  snapshot = (): SessionState => this.state;
  rawEvents = (): readonly RawEvent[] => this.raw;

  private change(part: Partial<SessionState>): void {
    this.state = { ...this.state, ...part };
    for (const listener of this.listeners) listener();
  }

  private show(log: Log): void {
    this.log = log;
    this.change({ conversation: log.shown, cursor: log.cursor, rawCount: this.raw.length });
  }

  /** Loads the thread and follows it until `close`. */
  async open(): Promise<void> {
    this.close();
    const following = new AbortController();
    this.following = following;
    const { signal } = following;
    this.change({ isLoading: true, failure: null });
    try {
      const cursor = await this.load(signal);
      if (signal.aborted) return;
      this.log = { ...this.log, cursor };
      this.change({ isLoading: false });
      await this.follow(signal);
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    }
  }

  /** What failed is not followed: the next message begins to follow anew. */
  private fail(error: unknown): void {
    this.close();
    this.change({ isLoading: false, failure: error, link: "none" });
  }

  close(): void {
    this.following?.abort();
    this.following = null;
  }

  /** Begins a thread that has nothing yet: nothing is loaded, and the first message is followed from the log's start. */
  begin(): void {
    this.close();
    this.log = { ...this.log, cursor: "0" };
    const following = new AbortController();
    this.following = following;
    this.change({ failure: null });
    void this.follow(following.signal).catch((error: unknown) => { if (!following.signal.aborted) this.fail(error); });
  }

  get isFollowing(): boolean {
    return this.following !== null;
  }

  private async load(signal: AbortSignal): Promise<string | null> {
    const [page, runs] = await Promise.all([fetchMessages(this.threadId, undefined, signal), fetchRuns(this.threadId, signal)]);
    // The newest run is shown from its events, which know more than its messages.
    const latest = runs.find((it) => it.started_at !== null && it.started_at !== undefined) ?? runs[0];
    const cursor = latest === undefined ? "0" : await findRunCursor(latest.run_id, signal).catch(() => null);
    this.earlier = page.next_cursor;
    this.show(changeLog(this.log, (now) => mergeStored(now, makeTurns(page.items, runs))));
    this.change({ hasEarlier: page.next_cursor !== null });
    void this.settle(signal);
    return cursor;
  }

  /** Reads how the calls of earlier runs ended: a stored result does not say whether it is a failure. */
  private async settle(signal?: AbortSignal): Promise<void> {
    for (const runId of listUnsettledRuns(this.log.shown).slice(0, SETTLED_RUNS)) {
      if (signal?.aborted === true) return;
      try {
        const outcomes = await fetchOutcomes(runId, signal);
        this.show(changeLog(this.log, (now) => settleCalls(now, runId, outcomes)));
      } catch {
        // The log of an old run may be gone; its results stay as they are.
      }
    }
  }

  private follow(signal: AbortSignal): Promise<void> {
    return followThread(
      this.threadId,
      {
        rewind: () => {
          while (this.raw.length > 0 && this.raw.at(-1)?.id === null) this.raw.pop();
          this.show(rewind(this.log));
          return this.log.cursor;
        },
        take: (frames) => this.take(frames),
        note: (link) => { if (!signal.aborted && this.state.link !== link) this.change({ link }); },
        expire: () => { this.log = { ...this.log, cursor: null }; void this.open(); },
      },
      signal,
    );
  }

  private take(frames: readonly LogFrame[]): void {
    const at = Date.now();
    for (const { id, event } of frames) this.raw.push({ id, at, event });
    if (this.raw.length > RAW_LIMIT) this.raw = this.raw.slice(-RAW_LIMIT);
    this.show(foldFrames(this.log, frames));
    const kinds = new Set(frames.map((it) => it.event.event_type));
    if (kinds.has("run_finish") || kinds.has("tool_call_resumed")) void refreshKinds("ticket", "run");
    const hasSteered = this.state.conversation.pending.some((it) => it.mode === "steer");
    if (kinds.has("run_start") || kinds.has("run_finish") || (hasSteered && (kinds.has("step_end") || kinds.has("step_start")))) void this.reload();
  }

  /** Reads the newest messages again: their order is the store's, and others may have written some. */
  private async reload(): Promise<void> {
    try {
      const [page, runs] = await Promise.all([fetchMessages(this.threadId, undefined), fetchRuns(this.threadId)]);
      this.show(changeLog(this.log, (now) => mergeStored(now, makeTurns(page.items, runs.filter((it) => it.run_id !== now.run?.runId)))));
    } catch {
      // The stream has the answer; the order is corrected by the next reload.
    }
  }

  async loadEarlier(): Promise<void> {
    if (this.earlier === null) return;
    const [page, runs] = await Promise.all([fetchMessages(this.threadId, this.earlier), fetchRuns(this.threadId)]);
    this.earlier = page.next_cursor;
    this.show(changeLog(this.log, (now) => prependStored(now, makeTurns(page.items, runs))));
    this.change({ hasEarlier: page.next_cursor !== null });
    void this.settle(this.following?.signal);
  }

  /** Sends a message; it is on the screen at once. A send that the server did not answer is repeated under its key until it does. */
  async send({ agentId, parts, publication, model, context, mode }: Sending): Promise<void> {
    const id = makeMessageId();
    const turn = { id, threadId: this.threadId, agentId, parts, publication, model, context, onBusy: mode === "interrupt" ? "interrupt" as const : "queue" as const };
    const pending: PendingTurn = { kind: "user", id, runId: null, parts, isSystem: false, mode, isAccepted: false };
    this.changePending((now) => [...now, pending]);
    for (;;) {
      try {
        const runId = await (mode === "steer" ? steerRun(turn) : startRun(turn));
        this.changePending((now) => now.map((it) => (it.id === id ? { ...it, runId: mode === "steer" ? null : runId, isAccepted: true } : it)));
        break;
      } catch (error) {
        const isUnanswered = error instanceof NetworkError || (error instanceof ApiError && error.status === 503);
        if (!isUnanswered) {
          this.changePending((now) => now.filter((it) => it.id !== id));
          throw error;
        }
        await new Promise((resolve) => setTimeout(resolve, RESEND_MS));
      }
    }
    // A page that was left meanwhile follows nothing.
    if (!this.isFollowing && this.listeners.size > 0) this.begin();
  }

  private changePending(change: (now: readonly PendingTurn[]) => readonly PendingTurn[]): void {
    this.show(changeLog(this.log, (now) => ({ ...now, pending: change(now.pending) })));
  }

  async stop(isInterrupt: boolean): Promise<StopReceipt> {
    const receipt = await stopThread(this.threadId, isInterrupt);
    if (isInterrupt) this.changePending(() => []);
    return receipt;
  }
}
