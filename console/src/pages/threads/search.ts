/** What the address of the list of threads holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"owner" | "parent" | "root" | "sort" | "columns">(["owner", "parent", "root", "sort", "columns"]);
