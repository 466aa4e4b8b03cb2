/** Time ranges of the list: those that end now, and one between two given times. Pure: the clock is given. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

export const RANGES = { "15m": 15 * MINUTE, "1h": HOUR, "24h": 24 * HOUR, "7d": 7 * 24 * HOUR, "30d": 30 * 24 * HOUR } as const;
export type RangeName = keyof typeof RANGES;
type Given = { range?: string; since?: string; until?: string };

export function isRange(name: string | undefined): name is RangeName {
  return name !== undefined && Object.hasOwn(RANGES, name);
}

function readTime(text: string | undefined): number | undefined {
  const ms = text === undefined ? NaN : Number(text);
  return Number.isFinite(ms) && ms >= 0 ? Math.floor(ms) : undefined;
}

/** The times that the server is asked for. A range that ends now begins at a whole minute, so that the list stays the same for one. */
export function readRange({ range, since, until }: Given, now: number): { since?: number; until?: number } {
  if (isRange(range)) return { since: Math.floor((now - RANGES[range]) / MINUTE) * MINUTE };
  return { since: readTime(since), until: readTime(until) };
}

/** By how much the clocks of a zone are before UTC at a time; undefined is the zone of the browser. */
function zoneOffset(ms: number, timeZone: string | undefined): number {
  const format = new Intl.DateTimeFormat("en", { timeZone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const parts = Object.fromEntries(format.formatToParts(ms).map((it) => [it.type, Number(it.value)]));
  return Date.UTC(parts.year ?? 0, (parts.month ?? 1) - 1, parts.day, parts.hour, parts.minute, parts.second) - Math.floor(ms / 1_000) * 1_000;
}

/** A time as the field for a date and time shows it, in the zone that the person has chosen. */
export function toLocalField(text: string | undefined, timeZone?: string): string {
  const ms = readTime(text);
  return ms === undefined ? "" : new Date(ms + zoneOffset(ms, timeZone)).toISOString().slice(0, 16);
}

export function fromLocalField(value: string, timeZone?: string): string | undefined {
  const wall = value === "" ? NaN : Date.parse(`${value}Z`);
  if (Number.isNaN(wall)) return undefined;
  // The offset belongs to the time that is sought: near a change of the clocks the first guess has the other one.
  return String(wall - zoneOffset(wall - zoneOffset(wall, timeZone), timeZone));
}
