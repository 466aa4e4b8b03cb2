/** The time as the server has it: ages, deadlines and periods are of its clock, and that of a browser may be wrong by hours. */

/** Clocks that differ by less count as one: a header names whole seconds, and a reply takes its time. */
const TOLERATED_MS = 15_000;
/** A reply that took longer, or a tab that slept meanwhile, tells too little. */
const SLOW_MS = 5_000;

/** How far the server's clock is ahead of this one, by what a reply said of the time. `undefined`: it does not tell. Pure. */
export function measureAhead(date: string | null, asked: number, answered: number): number | undefined {
  const said = date === null ? NaN : Date.parse(date);
  if (Number.isNaN(said) || answered < asked || answered - asked > SLOW_MS) return undefined;
  // The header has no milliseconds, and is as old as a part of the way.
  const ahead = said + 500 - (asked + answered) / 2;
  return Math.abs(ahead) < TOLERATED_MS ? 0 : Math.round(ahead);
}

let ahead = 0;
let tell: () => void = () => undefined;

/** `listener` hears that the server's time turned out to be another one: what was asked by the wrong time is to be asked again. */
export function whenTimeChanges(listener: () => void): void {
  tell = listener;
}

/** Learns the server's time from a reply; a small change is noise, not news. */
export function learnTime(date: string | null, asked: number): void {
  const found = measureAhead(date, asked, Date.now());
  if (found === undefined || found === ahead || (found !== 0 && Math.abs(found - ahead) <= TOLERATED_MS)) return;
  ahead = found;
  tell();
}

/** The time of the server at a time of this clock. */
export function toServerTime(at: number): number {
  return at + ahead;
}

export function readNow(): number {
  return toServerTime(Date.now());
}
