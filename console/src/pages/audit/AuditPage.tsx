import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function AuditPage() {
  return <Page title={shell.pages.audit}>{null}</Page>;
}
