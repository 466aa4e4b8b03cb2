/** What the address of the page of models holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"tab" | "q" | "edit" | "sort" | "columns">(["tab", "q", "edit", "sort", "columns"]);
