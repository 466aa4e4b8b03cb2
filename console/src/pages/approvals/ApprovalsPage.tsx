/** The inbox: what waits for a person, what was decided, and what is remembered. */
import { SegmentedControl } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { approvals as texts } from "../../texts/approvals";
import { shell } from "../../texts/shell";
import { useChangeSearch } from "../../ui/address";
import { Page } from "../../ui/Page";
import { DecidedTickets } from "./DecidedTickets";
import { OpenTickets } from "./OpenTickets";
import { RememberedAnswers } from "./RememberedAnswers";

const route = getRouteApi("/approvals");
const VIEWS = Object.entries(texts.views).map(([value, label]) => ({ value, label }));

export function ApprovalsPage() {
  const { view = "open" } = route.useSearch();
  const change = useChangeSearch();
  const choose = (next: string) => change({ view: next === "open" ? undefined : next, ticket: undefined, sort: undefined, columns: undefined, thread: undefined });
  const control = <SegmentedControl aria-label={texts.viewLabel} value={Object.hasOwn(texts.views, view) ? view : "open"} onChange={choose} data={VIEWS} />;
  return (
    <Page title={shell.pages.approvals} description={texts.description} actions={control}>
      {view === "decided" ? <DecidedTickets /> : view === "remembered" ? <RememberedAnswers /> : <OpenTickets />}
    </Page>
  );
}
