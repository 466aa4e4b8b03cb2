/** What a person has typed and not yet sent: it stays where it belongs, whatever else is on the screen meanwhile. Texts outlive a reload of the tab. */
import { useCallback, useSyncExternalStore } from "react";

const PREFIX = "awaken.typed.";
const kept = new Map<string, unknown>();
const listeners = new Set<() => void>();

function readStored(place: string): string | undefined {
  try {
    return sessionStorage.getItem(PREFIX + place) ?? undefined;
  } catch {
    return undefined;
  }
}

function store(place: string, text: unknown): void {
  try {
    if (typeof text === "string" && text !== "") sessionStorage.setItem(PREFIX + place, text);
    else sessionStorage.removeItem(PREFIX + place);
  } catch {
    // A browser that stores nothing, or no more, still has what is on the screen.
  }
}

/** What is typed at a place; `nothing` must be the same value each time. */
export function readTyped<T>(place: string, nothing: T): T {
  if (!kept.has(place)) {
    const stored = typeof nothing === "string" ? readStored(place) : undefined;
    if (stored === undefined) return nothing;
    kept.set(place, stored);
  }
  return kept.get(place) as T;
}

export function writeTyped<T>(place: string, next: T): void {
  kept.set(place, next);
  store(place, next);
  for (const listener of listeners) listener();
}

export function dropTyped(place: string): void {
  kept.delete(place);
  store(place, undefined);
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** What is typed at a place, and a function that changes it there, even when the page shows another place by then. */
export function useTyped<T>(place: string, nothing: T): [T, (change: T | ((now: T) => T)) => void] {
  const value = useSyncExternalStore(subscribe, () => readTyped(place, nothing));
  const change = useCallback(
    (next: T | ((now: T) => T)) => writeTyped(place, typeof next === "function" ? (next as (now: T) => T)(readTyped(place, nothing)) : next),
    [place, nothing],
  );
  return [value, change];
}
