/** The page of an address that does not exist. */
import { shell } from "../texts/shell";
import { Page } from "../ui/Page";

export function NotFound() {
  return <Page title={shell.notFoundTitle} description={shell.notFoundHelp}>{null}</Page>;
}
