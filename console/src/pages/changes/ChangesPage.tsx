import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function ChangesPage() {
  return <Page title={shell.pages.changes}>{null}</Page>;
}
