import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function RunPage() {
  return <Page title={shell.pages.runs}>{null}</Page>;
}
