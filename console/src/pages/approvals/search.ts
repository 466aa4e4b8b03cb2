/** What the address of the inbox holds: the view, the filters, the grouping, the ticket on the right. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"view" | "group" | "agent" | "tool" | "q" | "ticket" | "thread" | "sort" | "columns">([
  "view", "group", "agent", "tool", "q", "ticket", "thread", "sort", "columns",
]);
