/** What the address of the queue holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"view" | "agent" | "thread" | "sort" | "columns" | "open">(["view", "agent", "thread", "sort", "columns", "open"]);
