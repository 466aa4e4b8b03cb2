/** The runs of workflows, with what each does or waits for now. */
import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";

import { api, need, type Schemas } from "../../api/client";
import { usePagedList } from "../../api/paging";
import { agentsQuery } from "../../api/queries";
import { demo } from "../../texts/demo";
import { shell } from "../../texts/shell";
import { workflows as texts } from "../../texts/workflows";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { ShowDemo } from "../../ui/DemoData";
import { Filters } from "../../ui/Filters";
import { formatCount } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Age, CopyableId, ShortId, Status, Took } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import { Empty, Failure, Loading, NeedsScope } from "../../ui/states";
import { describeRun, lookOf } from "../run/words";

type Run = Schemas["RunView"];
const route = getRouteApi("/workflows");
/** Pages of the server may be short: it passes over other runs. */
const ROWS_LEAST = 30;
const named = texts.columns;

const COLUMNS: readonly DataColumn<Run>[] = [
  { id: "run", header: named.run, cell: (it) => <Link to="/runs/$runId" params={{ runId: it.run_id }}><ShortId id={it.run_id} /></Link> },
  { id: "status", header: named.status, cell: (it) => <Status value={lookOf(it)} />, sortValue: lookOf },
  { id: "workflow", header: named.workflow, cell: (it) => it.agent_id, sortValue: (it) => it.agent_id },
  { id: "now", header: named.now, cell: (it) => <Text span size="sm" c="dimmed" title={describeRun(it)}><ShownText text={describeRun(it)} /></Text>, isFlexible: true },
  { id: "steps", header: named.steps, cell: (it) => formatCount(it.steps), sortValue: (it) => it.steps, isRight: true },
  { id: "created", header: named.created, cell: (it) => <Age at={it.created_at} />, sortValue: (it) => it.created_at },
  { id: "took", header: named.took, cell: (it) => <Took from={it.started_at} to={it.finished_at} />, sortValue: (it) => it.duration_ms ?? null, isRight: true },
  { id: "thread", header: named.thread, cell: (it) => <CopyableId id={it.thread_id} />, isHiddenAtFirst: true },
];

function WorkflowRuns() {
  const { workflow, status, kind, sort, columns } = route.useSearch();
  const change = useChangeSearch();
  const navigate = useNavigate();
  const { data: agents = [] } = useQuery(agentsQuery);
  const list = usePagedList<Run>(["run", "workflows", workflow, status, kind], (cursor, signal) => {
    const query = { is_workflow: true, agent_id: workflow, status: status as Run["status"] | undefined, kind: kind === "demo" ? kind : undefined, order: "desc", cursor, limit: 100 } as const;
    return need(api.GET("/v1/runs", { signal, params: { query } }));
  });
  const { hasNextPage, isFetching, fetchNextPage } = list;
  const isShort = list.rows.length < ROWS_LEAST;
  useEffect(() => {
    if (isShort && hasNextPage && !isFetching) void fetchNextPage();
  }, [isShort, hasNextPage, isFetching, fetchNextPage]);
  if (list.isError) return <Failure error={list.error} onRetry={() => void list.refetch()} />;
  if (list.isPending) return <Loading />;
  const isFiltered = workflow !== undefined || status !== undefined || kind !== undefined;
  const choices = [
    { name: "workflow", label: texts.workflow, options: agents.filter((it) => it.is_workflow).map((it) => it.id), width: 180 },
    { name: "status", label: texts.status, options: texts.statuses, width: 120 },
    { name: "kind", label: demo.filter, options: [{ value: "demo", label: demo.onlyDemo }], width: 150 },
  ];
  return (
    <DataTable
      label={shell.pages.workflows}
      rows={list.rows}
      columns={COLUMNS}
      rowId={(it) => it.run_id}
      address={{ sort, columns }}
      onAddress={change}
      onOpen={(it) => void navigate({ to: "/runs/$runId", params: { runId: it.run_id } })}
      hasMore={list.hasNextPage}
      isLoadingMore={list.isFetchingNextPage}
      onMore={() => void list.fetchNextPage()}
      toolbar={<Filters values={{ workflow, status, kind }} onChange={change} choices={choices} />}
      empty={isFiltered ? <Empty title={texts.emptyFiltered} /> : <Empty title={texts.empty} action={<ShowDemo onShow={() => change({ kind: "demo" })} />} command={texts.command}>{texts.emptyHelp}</Empty>}
      height="calc(100vh - 220px)"
    />
  );
}

export function WorkflowsPage() {
  return (
    <NeedsScope scope="read" title={shell.pages.workflows}>
      <Page title={shell.pages.workflows} description={texts.description}><WorkflowRuns /></Page>
    </NeedsScope>
  );
}
