/** What the address of the list of runs holds. */
import { keepTexts, type Search } from "../../ui/search";

export const FILTERS = ["status", "agent", "kind", "ended", "publication", "q", "range", "since", "until"] as const;
export type FilterName = (typeof FILTERS)[number];
export type RunsSearch = Search<FilterName | "sort" | "columns">;

export const readSearch = keepTexts<FilterName | "sort" | "columns">([...FILTERS, "sort", "columns"]);
