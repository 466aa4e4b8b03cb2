/** What the address of a run's page holds: the tab, the chosen step, span and event, and the filters of the tabs. */
import { keepTexts, type Search } from "../../ui/search";

export const TABS = ["waterfall", "transcript", "events", "requests", "state", "cost", "lineage"] as const;
export type TabName = (typeof TABS)[number];

type Name = "tab" | "step" | "span" | "view" | "only" | "zoom" | "type" | "q" | "seq" | "diff" | "sort" | "columns";
export type RunSearch = Search<Name>;

export const readSearch = keepTexts<Name>(["tab", "step", "span", "view", "only", "zoom", "type", "q", "seq", "diff", "sort", "columns"]);

export function readTab(search: RunSearch): TabName {
  return TABS.find((it) => it === search.tab) ?? "waterfall";
}

/** The number of the chosen step, from 1. */
export function readStep(search: RunSearch): number | null {
  const step = Number(search.step);
  return Number.isInteger(step) && step > 0 ? step : null;
}
