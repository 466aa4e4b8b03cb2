/** What the address of a thread holds besides its id. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"tab" | "type">(["tab", "type"]);
