/** What the address of the chat holds besides the thread: agents, publications and models of both panes, the second thread, what is open beside. */
import { keepTexts } from "../../ui/search";

/** `beside` is the thread of the second pane, or `new`; `side` is the pane whose details are open, `tab` what they show. */
export const readSearch = keepTexts<"agent" | "publication" | "model" | "beside" | "besideAgent" | "besidePublication" | "besideModel" | "side" | "tab">([
  "agent", "publication", "model", "beside", "besideAgent", "besidePublication", "besideModel", "side", "tab",
]);
