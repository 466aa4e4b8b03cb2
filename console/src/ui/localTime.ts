/** Times as fields for a date and a time show them, in the zone that the person has chosen. Pure. */

export function readTime(text: string | undefined): number | undefined {
  const ms = text === undefined ? NaN : Number(text);
  return Number.isFinite(ms) && ms >= 0 ? Math.floor(ms) : undefined;
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
