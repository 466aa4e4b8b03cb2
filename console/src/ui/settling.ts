/**
 * For a moment after a decision no other one can be made. A decided ticket goes away and the next one comes into its place: the second click of a double
 * click, or a key that repeats, must not decide on a call that no person has read.
 */
import { useSyncExternalStore } from "react";

export const SETTLE_MS = 1_000;

let timer: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<() => void>();

function tell(): void {
  for (const listener of listeners) listener();
}

/** Begins the moment: called when a decision was sent, and when the page has moved on by itself. */
export function noteDecision(): void {
  clearTimeout(timer);
  timer = setTimeout(() => {
    timer = undefined;
    tell();
  }, SETTLE_MS);
  tell();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Whether buttons that decide are to stay disabled for now. */
export function useIsSettling(): boolean {
  return useSyncExternalStore(subscribe, () => timer !== undefined);
}
