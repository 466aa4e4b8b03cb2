/** What agents remember about users and projects, and the documents that they search. */
import { SegmentedControl } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { memory as texts } from "../../texts/memory";
import { useChangeSearch } from "../../ui/address";
import { Page } from "../../ui/Page";
import { NeedsScope } from "../../ui/states";
import { Documents } from "./Documents";
import { Facts } from "./Facts";

const route = getRouteApi("/memory");
const VIEWS = Object.entries(texts.views).map(([value, label]) => ({ value, label }));

export function MemoryPage() {
  const { view } = route.useSearch();
  const change = useChangeSearch();
  const isDocuments = view === "documents";
  const choose = (next: string) => change({ view: next === "facts" ? undefined : next, open: undefined, sort: undefined, columns: undefined });
  return (
    <NeedsScope scope="read" title={texts.page}>
      <Page title={texts.page} description={texts.description} actions={<SegmentedControl aria-label={texts.viewLabel} value={isDocuments ? "documents" : "facts"} onChange={choose} data={VIEWS} />}>
        {isDocuments ? <Documents /> : <Facts />}
      </Page>
    </NeedsScope>
  );
}
