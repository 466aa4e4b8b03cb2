/** What the address of an agent holds: the tab, the draft that is edited, and whether the preview is open. */
import { keepTexts } from "../../ui/search";

export const readSearch = keepTexts<"tab" | "draft" | "preview" | "version">(["tab", "draft", "preview", "version"]);
