/** What the address of schedules and triggers holds: the list, its filters, what is open and what is edited. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts(["view", "agent", "status", "demo", "open", "edit", "sort", "columns"]);
