/** Numbers and times as people read them. Pure: the clock is given. */

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long something took. Most clocks here count whole milliseconds: nothing takes no time at all. */
export function formatDuration(ms: number): string {
  if (ms < 1) return "<1 ms";
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND) return `${(ms / SECOND).toFixed(2)} s`;
  if (ms < MINUTE) return `${(ms / SECOND).toFixed(1)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ${Math.floor((ms % MINUTE) / SECOND)} s`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h ${Math.floor((ms % HOUR) / MINUTE)} min`;
  return `${Math.floor(ms / DAY)} d ${Math.floor((ms % DAY) / HOUR)} h`;
}

/** A place in time after a beginning, which is at 0. */
export function formatOffset(ms: number): string {
  return ms === 0 ? "0 ms" : formatDuration(ms);
}

/** How long ago, in one unit; the exact time belongs in a title beside it. */
export function formatAge(at: number, now: number): string {
  const ms = Math.max(0, now - at);
  if (ms < 10 * SECOND) return "now";
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s ago`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ago`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h ago`;
  return `${Math.floor(ms / DAY)} d ago`;
}

/** How long until a time, in one unit. */
export function formatUntil(at: number, now: number): string {
  const ms = at - now;
  if (ms < SECOND) return "now";
  if (ms < 2 * MINUTE) return `in ${Math.round(ms / SECOND)} s`;
  if (ms < 2 * HOUR) return `in ${Math.round(ms / MINUTE)} min`;
  if (ms < 2 * DAY) return `in ${Math.round(ms / HOUR)} h`;
  return `in ${Math.round(ms / DAY)} d`;
}

export function formatTime(at: number, timeZone?: string): string {
  return new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", timeZone }).format(at);
}

export function formatCount(count: number): string {
  return new Intl.NumberFormat("en").format(count);
}

export function formatTokens(count: number): string {
  if (count < 10_000) return formatCount(count);
  if (count < 1_000_000) return `${(count / 1_000).toFixed(count < 100_000 ? 1 : 0)}k`;
  return `${(count / 1_000_000).toFixed(2)}M`;
}

/** Money, from billionths of a dollar. */
export function formatCost(nanos: number): string {
  const usd = nanos / 1e9;
  if (usd === 0) return "$0";
  if (usd < 0.0001) return "<$0.0001";
  return `$${usd.toFixed(usd < 0.1 ? 4 : 2)}`;
}

/** What tokens cost, as far as it is known: tokens without any cost have no price. */
export function formatSpent(nanos: number, tokens: number): string | null {
  return nanos === 0 && tokens > 0 ? null : formatCost(nanos);
}

export function formatBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(1)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

export function formatPercent(part: number): string {
  return `${(part * 100).toFixed(part !== 0 && part < 0.1 ? 1 : 0)} %`;
}
