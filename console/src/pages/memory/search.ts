/** What the address of memory and knowledge holds: what is shown, whose it is, what is sought and what is open. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts(["view", "whose", "name", "q", "open", "collection", "find", "sort", "columns"]);
