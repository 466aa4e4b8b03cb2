/** What the address of this page holds besides its path. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"q">(["q"]);
