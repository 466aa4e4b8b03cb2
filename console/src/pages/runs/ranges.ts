/** Time ranges of the list: those that end now, and one between two given times. Pure: the clock is given. */

import { readTime } from "../../ui/localTime";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

export const RANGES = { "15m": 15 * MINUTE, "1h": HOUR, "24h": 24 * HOUR, "7d": 7 * 24 * HOUR, "30d": 30 * 24 * HOUR } as const;
export type RangeName = keyof typeof RANGES;
type Given = { range?: string; since?: string; until?: string };

export function isRange(name: string | undefined): name is RangeName {
  return name !== undefined && Object.hasOwn(RANGES, name);
}

/** The times that the server is asked for. A range that ends now begins at a whole minute, so that the list stays the same for one. */
export function readRange({ range, since, until }: Given, now: number): { since?: number; until?: number } {
  if (isRange(range)) return { since: Math.floor((now - RANGES[range]) / MINUTE) * MINUTE };
  return { since: readTime(since), until: readTime(until) };
}
