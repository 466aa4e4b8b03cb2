/** Whether the server can be reached, as the requests of this page find it. */
import { useSyncExternalStore } from "react";

let isReachable = true;
const listeners = new Set<() => void>();

export function noteReachable(is: boolean): void {
  if (is === isReachable) return;
  isReachable = is;
  for (const listener of listeners) listener();
}

export function isServerReachable(): boolean {
  return isReachable;
}

export function useIsReachable(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    isServerReachable,
  );
}
