/** Outbox commands that were given up. */
import { Button, Text, Tooltip } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { api, need, type Schemas } from "../../api/client";
import { useMay } from "../../api/caller";
import { usePagedList, type ListedPage } from "../../api/paging";
import { queue as texts } from "../../texts/queue";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { Age, CopyableId, JsonDrawer, ShortId } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import { Empty, Failure, Loading } from "../../ui/states";
import { useQueueActions } from "./actions";

type Command = Schemas["CommandView"];
const route = getRouteApi("/queue");

function RetryButton({ ids, clear }: { ids: readonly string[]; clear?: () => void }) {
  const may = useMay();
  const { retry } = useQueueActions();
  return <Tooltip label={texts.needsOperate} disabled={may("operate")}><Button disabled={!may("operate")} onClick={() => void retry(ids, clear)}>{texts.retry}</Button></Tooltip>;
}

export function OutboxTable() {
  const { sort, columns, thread } = route.useSearch();
  const change = useChangeSearch();
  const [shown, setShown] = useState<Command | undefined>(undefined);
  const list = usePagedList<Command>(["dispatch", "outbox", thread], async (cursor, signal): Promise<ListedPage<Command>> => {
    const query = { thread_id: thread, cursor: cursor === undefined ? undefined : Number(cursor), limit: 100 };
    return need(api.GET("/v1/outbox/dead", { signal, params: { query } }));
  });
  const shownColumns = useMemo((): readonly DataColumn<Command>[] => [
    { id: "delivery", header: texts.command, cell: (it) => <CopyableId id={it.id} /> },
    { id: "kind", header: texts.columns.kind, cell: (it) => it.kind, sortValue: (it) => it.kind },
    { id: "thread", header: texts.columns.thread, cell: (it) => (it.thread_id === null || it.thread_id === undefined ? ui.none : <Link to="/threads/$threadId" params={{ threadId: it.thread_id }}><ShortId id={it.thread_id} /></Link>) },
    { id: "attempts", header: texts.columns.attempts, cell: (it) => it.attempts, sortValue: (it) => it.attempts, isRight: true },
    { id: "due", header: texts.columns.updated, cell: (it) => <Age at={it.due_at} />, sortValue: (it) => it.due_at },
    { id: "error", header: texts.columns.error, cell: (it) => <Text span size="sm" title={it.error ?? undefined}><ShownText text={it.error ?? ui.none} /></Text>, isFlexible: true },
    { id: "actions", header: texts.columns.actions, cell: (it) => <RetryButton ids={[it.id]} /> },
  ], []);
  if (list.isError) return <Failure error={list.error} onRetry={() => void list.refetch()} />;
  if (list.isPending) return <Loading />;
  return (
    <>
      <DataTable
        label={texts.views.outbox}
        rows={list.rows}
        columns={shownColumns}
        rowId={(it) => it.id}
        address={{ sort, columns }}
        onAddress={change}
        onOpen={setShown}
        selectionActions={(rows, clear) => <RetryButton ids={rows.map((it) => it.id)} clear={clear} />}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={() => void list.fetchNextPage()}
        height="calc(100vh - 300px)"
        empty={<Empty title={texts.empty.outbox} command={texts.commands.outbox}>{texts.empty.outboxHelp}</Empty>}
      />
      <JsonDrawer title={texts.command} value={shown} onClose={() => setShown(undefined)} />
    </>
  );
}
