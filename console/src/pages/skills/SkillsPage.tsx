import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function SkillsPage() {
  return <Page title={shell.pages.skills}>{null}</Page>;
}
