/** What the address of the list of workflows' runs holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts(["workflow", "status", "kind", "sort", "columns"]);
