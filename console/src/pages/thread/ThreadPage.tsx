import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function ThreadPage() {
  return <Page title={shell.pages.threads}>{null}</Page>;
}
