import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function AgentPage() {
  return <Page title={shell.pages.agents}>{null}</Page>;
}
