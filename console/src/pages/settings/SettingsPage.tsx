import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function SettingsPage() {
  return <Page title={shell.pages.settings}>{null}</Page>;
}
