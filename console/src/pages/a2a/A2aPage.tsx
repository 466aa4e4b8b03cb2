import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function A2aPage() {
  return <Page title={shell.pages.a2a}>{null}</Page>;
}
