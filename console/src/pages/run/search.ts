/** What the address of a run's page holds: the tab, the chosen step, span and event, and the filters of the tabs. */
import { keepTexts, type Search } from "../../ui/search";

export const TABS = ["workflow", "waterfall", "transcript", "events", "requests", "state", "cost", "lineage"] as const;
export type TabName = (typeof TABS)[number];

type Name = "tab" | "step" | "span" | "view" | "only" | "zoom" | "type" | "q" | "seq" | "diff" | "sort" | "columns";
export type RunSearch = Search<Name>;

export const readSearch = keepTexts<Name>(["tab", "step", "span", "view", "only", "zoom", "type", "q", "seq", "diff", "sort", "columns"]);

/** The views of a run; only a workflow's has a journal. */
export function listTabs(isWorkflow: boolean): readonly TabName[] {
  return isWorkflow ? TABS : TABS.filter((it) => it !== "workflow");
}

/** The chosen view, else the first one. */
export function readTab(search: RunSearch, isWorkflow: boolean): TabName {
  const tabs = listTabs(isWorkflow);
  return tabs.find((it) => it === search.tab) ?? tabs[0] ?? "waterfall";
}

/** The number of the chosen step, from 1. */
export function readStep(search: RunSearch): number | null {
  const step = Number(search.step);
  return Number.isInteger(step) && step > 0 ? step : null;
}
