/** What the address of the page of workers holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"worker" | "sort" | "columns">(["worker", "sort", "columns"]);
