/** What is shown instead of a page that failed; the rail stays. */
import type { ErrorComponentProps } from "@tanstack/react-router";

import { shell } from "../texts/shell";
import { Page } from "../ui/Page";
import { Failure } from "../ui/states";
import { isMissingPart } from "./NewerVersion";

export function PageError({ error, reset }: ErrorComponentProps) {
  if (isMissingPart(error)) return <Page title={shell.newerTitle}>{null}</Page>;
  return <Page title={shell.failedTitle}><Failure error={error} onRetry={reset} /></Page>;
}
