/** What the address of the chat holds besides the thread: agents and publications of both panes, the second thread, what is open beside. */
import { keepTexts } from "../../ui/search";

/** `beside` is the thread of the second pane, or `new`; `side` is the pane whose details are open, `tab` what they show. */
export const readSearch = keepTexts<"agent" | "publication" | "beside" | "besideAgent" | "besidePublication" | "side" | "tab">([
  "agent", "publication", "beside", "besideAgent", "besidePublication", "side", "tab",
]);
