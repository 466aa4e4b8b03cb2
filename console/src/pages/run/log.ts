/** The log of a run in this tab: read in pages, then followed by its cursor. It keeps small rows, not the events. */
import { useEffect, useMemo, useSyncExternalStore } from "react";

import { api, need } from "../../api/client";
import { describeError } from "../../api/errors";
import { openStream, readFrames } from "../../api/frames";
import { toRow, type EventRow, type Logged } from "./eventRows";

export type FeedState = "catching up" | "live" | "cut" | "ended";

const PAGE = 200;
const SETTLE_MS = 150;
const RETRY_MS = 1_000;

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Reads the log of one run. Readers are told after every page. */
export class RunLog {
  rows: EventRow[] = [];
  feed: FeedState = "catching up";
  problem: string | null = null;
  /** Counts the changes. */
  version = 0;

  private cursor = 0;
  private steps = 0;
  private reading: Promise<void> | null = null;
  private isAskedAgain = false;
  private listeners = new Set<() => void>();

  constructor(readonly runId: string) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  private tell(): void {
    this.version += 1;
    for (const it of this.listeners) it();
  }

  private note(feed: FeedState): void {
    if (feed === this.feed) return;
    this.feed = feed;
    this.tell();
  }

  /** Reads up to the end of the log. Asked while it reads, it reads once more. */
  catchUp(signal: AbortSignal): Promise<void> {
    if (this.reading !== null) {
      this.isAskedAgain = true;
      return this.reading;
    }
    this.reading = this.readPages(signal).finally(() => {
      this.reading = null;
    });
    return this.reading;
  }

  private async readPages(signal: AbortSignal): Promise<void> {
    for (;;) {
      this.isAskedAgain = false;
      const query = { cursor: this.cursor, limit: PAGE };
      const page = await need(api.GET("/v1/runs/{run_id}/events", { params: { path: { run_id: this.runId }, query }, signal }));
      this.take(page.items as unknown as Logged[]);
      this.cursor = Math.max(this.cursor, Number(page.next_cursor ?? 0));
      if (page.has_more !== true && !this.isAskedAgain) return;
    }
  }

  private take(items: readonly Logged[]): void {
    if (items.length === 0) return;
    for (const it of items) {
      const row = toRow(it, this.steps);
      this.steps = row.step;
      this.rows.push(row);
    }
    this.rows = [...this.rows];
    this.tell();
  }

  /** Reads the log, and while the run executes follows it until it ends, waits, or the page leaves it. */
  async follow(isLive: boolean, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        this.note("catching up");
        await this.catchUp(signal);
        this.problem = null;
        if (!isLive) return this.note("ended");
        await this.readStream(signal);
        // It ended or waits; if it goes on, another stream shows it.
        await this.catchUp(signal);
        await pause(RETRY_MS);
      } catch (error) {
        if (signal.aborted) return;
        this.problem = describeError(error);
        this.feed = "cut";
        this.tell();
        await pause(RETRY_MS);
      }
    }
  }

  private async readStream(signal: AbortSignal): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | null = null;
    const stream = await openStream(`/v1/runs/${encodeURIComponent(this.runId)}/events/stream`, this.cursor === 0 ? null : String(this.cursor), signal);
    this.note("live");
    try {
      for await (const frame of readFrames(stream)) {
        // Frames carry no times: the log is read again, at most once in a while.
        if (frame.id === null) continue;
        timer ??= setTimeout(() => {
          timer = null;
          void this.catchUp(signal).catch(() => undefined);
        }, SETTLE_MS);
      }
    } finally {
      if (timer !== null) clearTimeout(timer);
    }
  }
}

let latest: RunLog | null = null;

/** The log of a run; the one that was read last is kept while a person moves between tabs. */
export function useRunLog(runId: string, isLive: boolean, updatedAt: number, isWanted: boolean): RunLog {
  const log = useMemo(() => {
    if (latest?.runId !== runId) latest = new RunLog(runId);
    return latest;
  }, [runId]);
  useEffect(() => {
    if (!isWanted) return;
    const stop = new AbortController();
    void log.follow(isLive, stop.signal);
    return () => stop.abort();
    // A run that does not execute has grown if it was changed; one that executes is followed.
  }, [log, isLive, isWanted, isLive ? 0 : updatedAt]);
  useSyncExternalStore(log.subscribe, () => log.version);
  return log;
}
