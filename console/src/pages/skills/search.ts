/** What the address of this page holds: the filter, the record that is open, and the one that is edited ("new" makes one). */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"q" | "id" | "edit" | "sort" | "columns">(["q", "id", "edit", "sort", "columns"]);
