/** What the address of the page of changes holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"tab" | "draft" | "publication" | "from" | "to" | "sort" | "columns">(["tab", "draft", "publication", "from", "to", "sort", "columns"]);
