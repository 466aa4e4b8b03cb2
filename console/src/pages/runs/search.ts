/** What the address of the list of runs holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"status" | "agent" | "kind" | "ended" | "publication" | "q" | "sort" | "columns">([
  "status", "agent", "kind", "ended", "publication", "q", "sort", "columns",
]);
