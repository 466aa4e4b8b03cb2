/** What is shown instead of a page that failed; the rail stays. */
import type { ErrorComponentProps } from "@tanstack/react-router";

import { shell } from "../texts/shell";
import { Page } from "../ui/Page";
import { Failure } from "../ui/states";

export function PageError({ error, reset }: ErrorComponentProps) {
  return <Page title={shell.failedTitle}><Failure error={error} onRetry={reset} /></Page>;
}
