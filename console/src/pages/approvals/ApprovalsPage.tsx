import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function ApprovalsPage() {
  return <Page title={shell.pages.approvals}>{null}</Page>;
}
