/** What the address of the page holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts(["tab", "case", "q", "tag", "show", "from", "to", "sort", "columns"]);
