/** Loads parts of the console that do not come with its first page. A part that does not come while the server is away comes when it is back. */
import { lazy } from "react";

import { root } from "../api/address";
import { noteReachable } from "../api/connection";

const ASK_AGAIN_MS = 1_000;
const MISSING = /dynamically imported module|importing a module script failed|unable to preload css|module script/i;
/** What a window hears when a server that answers does not have a part: it was updated while the page was open. */
export const PART_GONE = "awaken:part-gone";

/** Whether an error says that a part of the console could not be loaded. Browsers have no other sign than their words. */
export function isMissingPart(error: unknown): boolean {
  return error instanceof Error && MISSING.test(error.message);
}

let waiting: Promise<void> | null = null;

/** Asks the server until it answers anything; parts that wait at the same time share the question. */
function waitForServer(): Promise<void> {
  const ask = async () => {
    for (;;) {
      try {
        await fetch(`${root}/health`);
        noteReachable(true);
        return;
      } catch {
        noteReachable(false);
        await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS));
      }
    }
  };
  waiting ??= ask().finally(() => { waiting = null; });
  return waiting;
}

/** Every dynamic import goes through here: a part that fails once would else be missing until the page is loaded anew. */
export async function loadPart<T>(load: () => Promise<T>, findServer: () => Promise<void> = waitForServer): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if (!isMissingPart(error)) throw error;
    await findServer();
  }
  try {
    return await load();
  } catch (error) {
    if (!isMissingPart(error)) throw error;
    // The rest of the page goes on, with what is typed in it, under a banner that offers the new version.
    window.dispatchEvent(new Event(PART_GONE));
    return new Promise<never>(() => undefined);
  }
}

/** A component that is loaded when it is first drawn. */
export const lazyPart: typeof lazy = (load) => lazy(() => loadPart(load));
