/** What the address of the page of rules holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"tab" | "q" | "agent" | "edit" | "tool" | "arguments" | "sort" | "columns">(["tab", "q", "agent", "edit", "tool", "arguments", "sort", "columns"]);
