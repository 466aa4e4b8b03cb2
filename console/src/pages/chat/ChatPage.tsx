import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function ChatPage() {
  return <Page title={shell.pages.chat}>{null}</Page>;
}
