/** What the address of the list of tools holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"q" | "source" | "tool" | "sort" | "columns">(["q", "source", "tool", "sort", "columns"]);
