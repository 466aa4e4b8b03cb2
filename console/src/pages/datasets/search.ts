/** What the address of the page holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts(["create", "q", "demo", "sort", "columns"]);
