/** What the address of the page of cost holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"days" | "by" | "measure" | "view" | "tenant" | "edit" | "sort" | "columns">(["days", "by", "measure", "view", "tenant", "edit", "sort", "columns"]);
