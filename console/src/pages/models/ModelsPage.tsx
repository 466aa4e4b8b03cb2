import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function ModelsPage() {
  return <Page title={shell.pages.models}>{null}</Page>;
}
