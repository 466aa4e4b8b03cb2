/** What the address of the list of threads holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"q" | "owner" | "parent" | "root" | "demo" | "sort" | "columns">(["q", "owner", "parent", "root", "demo", "sort", "columns"]);
