import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function CostPage() {
  return <Page title={shell.pages.cost}>{null}</Page>;
}
