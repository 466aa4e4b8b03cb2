/** What the address of the list of agents holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"q" | "owner" | "model" | "new" | "sort" | "columns">(["q", "owner", "model", "new", "sort", "columns"]);
