/** Lists that come page by page, by the cursor of the page before. */
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import type { ResourceKind } from "./queries";

export type ListedPage<Row> = { items: readonly Row[]; next_cursor?: string | null; has_more?: boolean };
type Fetch<Row> = (cursor: string | undefined, signal: AbortSignal) => Promise<ListedPage<Row>>;

/** Loads a list; a change of the key starts it anew, and the rows of before stay until the new ones are there. */
export function usePagedList<Row>(key: readonly [ResourceKind, ...unknown[]], fetchPage: Fetch<Row>, isEnabled = true) {
  const query = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) => fetchPage(pageParam, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => (page.has_more === false ? undefined : (page.next_cursor ?? undefined)),
    placeholderData: keepPreviousData,
    enabled: isEnabled,
  });
  const rows = useMemo(() => query.data?.pages.flatMap((it) => it.items) ?? [], [query.data]);
  return { ...query, rows };
}
