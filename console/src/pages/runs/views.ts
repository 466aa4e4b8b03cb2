/** Saved views of the list of runs: names for sets of filters, kept in this browser. Pure but for the hook. */
import { useLocalStorage } from "@mantine/hooks";

import { readSearch, type RunsSearch } from "./search";

export type SavedView = { name: string; search: RunsSearch };
const VERSION = 1;
const NAME_CHARS = 60;
const VIEWS_MAX = 100;

/** Reads views from a file; what is no view is left out.
 *  Throws an `Error` with a sentence if the text is no file of views at all. */
export function parseViews(text: string): SavedView[] {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    throw new Error("The file is not JSON.");
  }
  const list = typeof given === "object" && given !== null ? (given as { views?: unknown }).views : undefined;
  if (!Array.isArray(list)) throw new Error("The file has no list of views.");
  return list.flatMap((it: unknown) => {
    if (typeof it !== "object" || it === null) return [];
    const { name, search } = it as { name?: unknown; search?: unknown };
    if (typeof name !== "string" || name.trim() === "" || typeof search !== "object" || search === null) return [];
    return [{ name: name.trim().slice(0, NAME_CHARS), search: readSearch(search as Record<string, unknown>) }];
  }).slice(0, VIEWS_MAX);
}

export function writeViews(views: readonly SavedView[]): string {
  return `${JSON.stringify({ version: VERSION, views }, null, 2)}\n`;
}

/** Adds views; one of the same name is replaced. */
export function mergeViews(held: readonly SavedView[], added: readonly SavedView[]): SavedView[] {
  const names = new Set(added.map((it) => it.name));
  return [...held.filter((it) => !names.has(it.name)), ...added].sort((a, b) => a.name.localeCompare(b.name)).slice(0, VIEWS_MAX);
}

export function useViews() {
  const [views, setViews] = useLocalStorage<SavedView[]>({ key: "awaken.runs.views", defaultValue: [], getInitialValueInEffect: false });
  return {
    views,
    add: (added: readonly SavedView[]) => setViews((now) => mergeViews(now, added)),
    remove: (name: string) => setViews((now) => now.filter((it) => it.name !== name)),
  };
}
