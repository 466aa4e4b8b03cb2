import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function McpPage() {
  return <Page title={shell.pages.mcp}>{null}</Page>;
}
