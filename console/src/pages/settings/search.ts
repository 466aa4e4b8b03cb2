/** The settings hold nothing in their address: they are of this browser. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<never>([]);
