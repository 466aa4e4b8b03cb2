import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function ToolsPage() {
  return <Page title={shell.pages.tools}>{null}</Page>;
}
