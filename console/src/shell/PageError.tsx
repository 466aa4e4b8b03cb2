/** What is shown instead of a page that failed or does not come; the rail stays. */
import { Box } from "@mantine/core";
import { useRouter, type ErrorComponentProps } from "@tanstack/react-router";

import { shell } from "../texts/shell";
import { Page } from "../ui/Page";
import { Failure, Loading } from "../ui/states";

export function PageError({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  const again = () => {
    reset();
    void router.invalidate();
  };
  return <Page title={shell.failedTitle}><Failure error={error} onRetry={again} /></Page>;
}

export function PagePending() {
  return <Box p="lg"><Loading /></Box>;
}
