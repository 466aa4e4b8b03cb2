/** What the address of the audit holds. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"resource" | "action" | "actor" | "period" | "event" | "sort" | "columns">(["resource", "action", "actor", "period", "event", "sort", "columns"]);
