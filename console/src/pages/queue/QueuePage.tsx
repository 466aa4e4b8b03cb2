import { Page } from "../../ui/Page";
import { shell } from "../../texts/shell";

export function QueuePage() {
  return <Page title={shell.pages.queue}>{null}</Page>;
}
