/** What an authorization server sends the browser back with. */
import { keepTexts } from "../../ui/search";

const NAMES = ["code", "state", "iss", "error", "error_description"] as const;
export const readSearch = keepTexts<(typeof NAMES)[number]>(NAMES);
