/** Deliveries of one status, with what an operator can do with them. */
import { Button, Group, Text, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { api, need } from "../../api/client";
import { useMay } from "../../api/caller";
import { usePagedList, type ListedPage } from "../../api/paging";
import { agentsQuery } from "../../api/queries";
import { queue as texts } from "../../texts/queue";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { Filters } from "../../ui/Filters";
import { formatDuration } from "../../ui/format";
import { Age, CopyableId, ShortId, Status, useNow } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import { Empty, Failure, Loading } from "../../ui/states";
import { useQueueActions } from "./actions";
import { DeliveryDrawer } from "./DeliveryDrawer";
import { isOpen, spellStatus, type Delivery } from "./depth";

export type DeliveryView = "waiting" | "claimed" | "dead" | "all";
const STATUSES = { waiting: "queued", claimed: "claimed", dead: "dead_letter", all: undefined } as const;
const HIDDEN: Record<DeliveryView, readonly string[]> = {
  waiting: ["status", "worker", "lease", "epoch", "updated"], claimed: ["status", "due", "error", "updated"], dead: ["worker", "lease", "epoch", "due", "mode", "status"], all: ["worker", "lease", "epoch", "due", "mode"],
};
const route = getRouteApi("/queue");

/** How long a worker may go on without a sign of life. */
function Lease({ until }: { until: number | null | undefined }) {
  const now = useNow(1_000);
  if (until === null || until === undefined) return <>{ui.none}</>;
  return <>{until > now ? texts.leaseLeft(formatDuration(until - now)) : texts.leaseOver(formatDuration(now - until))}</>;
}

function makeColumns(view: DeliveryView): DataColumn<Delivery>[] {
  const columns: DataColumn<Delivery>[] = [
    { id: "delivery", header: texts.columns.delivery, cell: (it) => <CopyableId id={it.dispatch_id} /> },
    { id: "status", header: texts.columns.status, cell: (it) => <Status value={spellStatus(it.status)} />, sortValue: (it) => it.status },
    { id: "agent", header: texts.columns.agent, cell: (it) => it.agent_id ?? texts.anyAgent, sortValue: (it) => it.agent_id ?? null },
    { id: "thread", header: texts.columns.thread, cell: (it) => <Link to="/threads/$threadId" params={{ threadId: it.thread_id }} search={{ tab: "queue" }}><ShortId id={it.thread_id} /></Link> },
    { id: "run", header: texts.columns.run, cell: (it) => <Link to="/runs/$runId" params={{ runId: it.taken_by ?? it.run_id }}><ShortId id={it.taken_by ?? it.run_id} /></Link> },
    { id: "age", header: texts.columns.age, cell: (it) => <Age at={it.created_at} />, sortValue: (it) => it.created_at },
    { id: "attempts", header: texts.columns.attempts, cell: (it) => `${it.attempt_count} / ${it.max_attempts}`, sortValue: (it) => it.attempt_count, isRight: true },
    { id: "mode", header: texts.columns.mode, cell: (it) => it.mode, sortValue: (it) => it.mode },
    { id: "due", header: texts.columns.due, cell: (it) => <Age at={it.available_at} />, sortValue: (it) => it.available_at },
    { id: "worker", header: texts.columns.worker, cell: (it) => (it.claimed_by === null || it.claimed_by === undefined ? ui.none : <CopyableId id={it.claimed_by} />), sortValue: (it) => it.claimed_by ?? null },
    { id: "lease", header: texts.columns.lease, cell: (it) => <Lease until={it.lease_until} />, sortValue: (it) => it.lease_until ?? null },
    { id: "epoch", header: texts.columns.epoch, cell: (it) => it.dispatch_epoch, sortValue: (it) => it.dispatch_epoch, isRight: true },
    { id: "error", header: texts.columns.error, cell: (it) => <Text span size="sm" title={it.last_error ?? undefined}><ShownText text={it.last_error ?? it.cancel_cause ?? ui.none} /></Text>, isFlexible: true },
    { id: "updated", header: texts.columns.updated, cell: (it) => <Age at={it.updated_at} />, sortValue: (it) => it.updated_at },
    { id: "dedupe", header: texts.columns.dedupe, cell: (it) => it.dedupe_key ?? ui.none, isHiddenAtFirst: true },
    { id: "tenant", header: texts.columns.tenant, cell: (it) => it.tenant_id ?? ui.none, isHiddenAtFirst: true },
    { id: "priority", header: texts.columns.priority, cell: (it) => it.priority, sortValue: (it) => it.priority, isRight: true, isHiddenAtFirst: true },
  ];
  return columns.map((it) => (HIDDEN[view].includes(it.id) ? { ...it, isHiddenAtFirst: true } : it));
}

function DeliveryActions({ rows, clear }: { rows: readonly Delivery[]; clear?: () => void }) {
  const may = useMay();
  const { replay, cancel } = useQueueActions();
  const dead = rows.filter((it) => spellStatus(it.status) === "dead_letter").map((it) => it.dispatch_id);
  const open = rows.filter(isOpen).map((it) => it.dispatch_id);
  if (dead.length + open.length === 0) return null;
  return (
    <Tooltip label={texts.needsOperate} disabled={may("operate")}>
      <Group gap={4} wrap="nowrap" w="fit-content">
        {dead.length === 0 ? null : <Button disabled={!may("operate")} onClick={() => void replay(dead, clear)}>{texts.replay}</Button>}
        {open.length === 0 ? null : <Button disabled={!may("operate")} onClick={() => void cancel(open, clear)}>{texts.cancel}</Button>}
      </Group>
    </Tooltip>
  );
}

export function DeliveryTable({ view }: { view: DeliveryView }) {
  const { agent, thread, sort, columns, open } = route.useSearch();
  const change = useChangeSearch();
  const { data: agents = [] } = useQuery(agentsQuery);
  const list = usePagedList<Delivery>(["dispatch", "list", view, agent, thread], async (cursor, signal): Promise<ListedPage<Delivery>> => {
    const query = { status: STATUSES[view], agent, thread_id: thread, cursor: cursor === undefined ? undefined : Number(cursor), limit: 100 };
    return need(api.GET("/v1/dispatches", { signal, params: { query } }));
  });
  const shownColumns = useMemo((): readonly DataColumn<Delivery>[] => {
    const [first, ...rest] = makeColumns(view);
    // The actions stand early, so that they are in sight on a narrow screen.
    return [...(first === undefined ? [] : [first]), { id: "actions", header: texts.columns.actions, cell: (it) => <DeliveryActions rows={[it]} /> }, ...rest];
  }, [view]);
  if (list.isError) return <Failure error={list.error} onRetry={() => void list.refetch()} />;
  if (list.isPending) return <Loading />;
  const isFiltered = agent !== undefined || thread !== undefined;
  return (
    <>
      <DataTable
        label={texts.views[view]}
        rows={list.rows}
        columns={shownColumns}
        rowId={(it) => it.dispatch_id}
        address={{ sort, columns }}
        onAddress={change}
        onOpen={(it) => change({ open: it.dispatch_id })}
        selectionActions={(rows, clear) => <DeliveryActions rows={rows} clear={clear} />}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={() => void list.fetchNextPage()}
        height="calc(100vh - 300px)"
        toolbar={<Filters values={{ agent, thread }} onChange={change} choices={[{ name: "agent", label: texts.agent, options: agents.map((it) => it.id), width: 170 }]} text={{ name: "thread", placeholder: texts.thread }} />}
        empty={isFiltered ? <Empty title={texts.emptyFiltered} /> : <Empty title={texts.empty[view]} command={texts.commands[view]}>{texts.empty[`${view}Help`]}</Empty>}
      />
      <DeliveryDrawer deliveryId={open} known={list.rows.find((it) => it.dispatch_id === open)} onClose={() => change({ open: undefined })} actions={(it) => <DeliveryActions rows={[it]} clear={() => change({ open: undefined })} />} />
    </>
  );
}
