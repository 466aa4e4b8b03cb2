/** What the address of the page holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts(["new", "dataset", "draft", "status", "demo", "sort", "columns"]);
