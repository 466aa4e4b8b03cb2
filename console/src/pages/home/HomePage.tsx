import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function HomePage() {
  return <Page title={shell.pages.home}>{null}</Page>;
}
