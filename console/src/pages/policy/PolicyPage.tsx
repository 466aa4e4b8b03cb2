import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function PolicyPage() {
  return <Page title={shell.pages.policy}>{null}</Page>;
}
