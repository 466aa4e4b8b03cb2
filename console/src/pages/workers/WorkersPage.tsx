import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function WorkersPage() {
  return <Page title={shell.pages.workers}>{null}</Page>;
}
