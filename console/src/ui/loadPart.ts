/** Loads parts of the console that do not come with its first page. A part that is asked for while the server is away comes when it is back. */
import { lazy } from "react";

import { root } from "../api/address";
import { isServerReachable, noteReachable } from "../api/connection";

const ASK_AGAIN_MS = 1_000;
const MISSING = /dynamically imported module|importing a module script failed|unable to preload css|module script/i;
const ADDRESS = /https?:\/\/\S+/;
/** What a window hears when a part cannot come into this document; the event says why. */
export const PART_MISSING = "awaken:part-missing";
/** `gone`: a server that answers does not have it, because it was updated. `failed`: the server has it, but browsers remember a module that failed until the page is loaded anew. */
export type MissingPart = "gone" | "failed";

/** Whether an error says that a part of the console could not be loaded. Browsers have no other sign than their words. */
export function isMissingPart(error: unknown): error is Error {
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

/** Why a part does not come from a server that answers. Some browsers do not name the part: then it counts as gone, and a new document asks for it again as well. */
async function findReason(error: Error): Promise<MissingPart> {
  const address = ADDRESS.exec(error.message)?.[0];
  if (address === undefined) return "gone";
  try {
    return (await fetch(address, { method: "HEAD" })).ok ? "failed" : "gone";
  } catch {
    return "failed";
  }
}

/**
 * Every dynamic import goes through here. While the server is known to be away none begins: a browser may remember a module that failed, and its parts, for
 * as long as the document lives.
 */
export async function loadPart<T>(load: () => Promise<T>, findServer: () => Promise<void> = waitForServer): Promise<T> {
  if (!isServerReachable()) await findServer();
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
    // The rest of the page goes on, with what is typed in it, under a banner that offers to load it anew.
    window.dispatchEvent(new CustomEvent<MissingPart>(PART_MISSING, { detail: await findReason(error) }));
    return new Promise<never>(() => undefined);
  }
}

/** A component that is loaded when it is first drawn. */
export const lazyPart: typeof lazy = (load) => lazy(() => loadPart(load));
