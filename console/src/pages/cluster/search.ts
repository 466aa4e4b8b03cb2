/** What the address of the page of the cluster holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"node" | "sort" | "columns">(["node", "sort", "columns"]);
