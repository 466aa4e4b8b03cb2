/** The list of runs. */
import { ActionIcon, Button, Text, Tooltip } from "@mantine/core";
import { IconBraces } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { api, need, type Schemas } from "../../api/client";
import { useMay } from "../../api/caller";
import { readNow } from "../../api/clock";
import { usePagedList } from "../../api/paging";
import { agentsQuery } from "../../api/queries";
import { runs as texts } from "../../texts/runs";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { useConfirm } from "../../ui/confirm";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { ShowDemo } from "../../ui/DemoData";
import { formatCost, formatCount, formatTokens } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Age, CopyableId, JsonDrawer, ShortId, Status, Took } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import { describeRun, lookOf } from "../run/words";
import { cancelRuns } from "./cancelRuns";
import { Glance } from "./Glance";
import { readRange } from "./ranges";
import { RunFilters } from "./RunFilters";
import { SavedViews } from "./SavedViews";
import type { RunsSearch } from "./search";

type Run = Schemas["RunView"];
type Query = NonNullable<Parameters<typeof fetchRuns>[0]>;

function fetchRuns(query: { status?: Run["status"] | null; ended?: NonNullable<Run["termination"]>["type"] | null; agent_id?: string; kind?: string; publication?: number; q?: string; since?: number; until?: number }, cursor: string | undefined, signal: AbortSignal) {
  const ended = query.ended === "suspended" ? undefined : query.ended;
  return need(api.GET("/v1/runs", { params: { query: { ...query, ended, order: "desc", cursor, limit: 100 } }, signal }));
}

/** What the server is asked for. */
function toQuery(search: RunsSearch, now: number): Query {
  const { agent, publication, q, kind } = search;
  return { ...readRange(search, now), agent_id: agent, q, kind, status: search.status as Query["status"], ended: search.ended as Query["ended"], publication: publication === undefined ? undefined : Number(publication) };
}

function countTokens(run: Run): number {
  return (run.input_tokens ?? 0) + (run.output_tokens ?? 0);
}

function buildColumns(showJson: (run: Run) => void): readonly DataColumn<Run>[] {
  const named = texts.columns;
  return [
    { id: "run", header: named.run, cell: (it) => <Link to="/runs/$runId" params={{ runId: it.run_id }}><ShortId id={it.run_id} /></Link> },
    { id: "status", header: named.status, cell: (it) => <Status value={lookOf(it)} />, sortValue: lookOf },
    { id: "agent", header: named.agent, cell: (it) => it.agent_id, sortValue: (it) => it.agent_id },
    { id: "kind", header: named.kind, cell: (it) => it.kind, sortValue: (it) => it.kind, isHiddenAtFirst: true },
    { id: "publication", header: named.publication, cell: (it) => it.publication ?? ui.none, sortValue: (it) => it.publication ?? null, isRight: true, isHiddenAtFirst: true },
    { id: "created", header: named.created, cell: (it) => <Age at={it.created_at} />, sortValue: (it) => it.created_at },
    { id: "took", header: named.took, cell: (it) => <Took from={it.started_at} to={it.finished_at} />, sortValue: (it) => it.duration_ms ?? null, isRight: true },
    { id: "steps", header: named.steps, cell: (it) => formatCount(it.steps), sortValue: (it) => it.steps, isRight: true },
    { id: "tokens", header: named.tokens, cell: (it) => formatTokens(countTokens(it)), sortValue: countTokens, isRight: true },
    { id: "cost", header: named.cost, cell: (it) => (it.usage.cost_nanos == null ? ui.none : formatCost(it.usage.cost_nanos)), sortValue: (it) => it.usage.cost_nanos ?? null, isRight: true },
    { id: "end", header: named.end, cell: (it) => <Text span c="dimmed" size="sm" title={describeRun(it)}>{describeRun(it)}</Text>, isFlexible: true },
    { id: "thread", header: named.thread, cell: (it) => <CopyableId id={it.thread_id} />, isHiddenAtFirst: true },
    { id: "json", header: named.json, cell: (it) => <ActionIcon size={24} aria-label={`${ui.asJson} ${it.run_id}`} onClick={() => showJson(it)}><IconBraces size={14} /></ActionIcon>, width: 50 },
  ];
}

const route = getRouteApi("/runs");

export function RunsPage() {
  const search = route.useSearch();
  const change = useChangeSearch() as (change: RunsSearch) => void;
  const navigate = useNavigate();
  const may = useMay();
  const confirm = useConfirm();
  const [shown, setShown] = useState<Run | undefined>();
  const { data: agents = [] } = useQuery(agentsQuery);
  const { sort, columns, ...filters } = search;
  const list = usePagedList<Run>(["run", "list", filters], (cursor, signal) => fetchRuns(toQuery(filters, readNow()), cursor, signal));
  const shownColumns = useMemo(() => buildColumns(setShown), []);
  const isFiltered = Object.values(filters).some((it) => it !== undefined);
  const mayCancel = may("invoke");
  return (
    <Page title={shell.pages.runs} description={texts.description} actions={<SavedViews search={search} onUse={change} />}>
      <Glance search={search} onSearch={change} />
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.isPending ? <Loading /> : (
        <DataTable
          label={shell.pages.runs}
          rows={list.rows}
          columns={shownColumns}
          rowId={(it) => it.run_id}
          address={{ sort, columns }}
          onAddress={change}
          onOpen={(it) => void navigate({ to: "/runs/$runId", params: { runId: it.run_id } })}
          selectionActions={(chosen, clear) => (
            <Tooltip label={shell.needsScope("invoke")} disabled={mayCancel}>
              <Button data-disabled={!mayCancel || undefined} aria-disabled={!mayCancel} onClick={() => { if (mayCancel) void cancelRuns(chosen, confirm).then((is) => { if (is) clear(); }); }}>{texts.cancel}</Button>
            </Tooltip>
          )}
          hasMore={list.hasNextPage}
          isLoadingMore={list.isFetchingNextPage}
          onMore={() => void list.fetchNextPage()}
          toolbar={<RunFilters search={filters} agents={agents.map((it) => it.id)} onSearch={change} />}
          empty={isFiltered ? <Empty title={texts.emptyFiltered} /> : (
            <Empty title={texts.empty} action={<><Button variant="filled" renderRoot={(props) => <Link to="/chat/{-$threadId}" {...props} />}>{texts.startChat}</Button><ShowDemo onShow={() => change({ kind: "demo" })} /></>} command={texts.command}>{texts.emptyHelp}</Empty>
          )}
          height="calc(100vh - 250px)"
        />
      )}
      <JsonDrawer title={shown?.run_id} value={shown} onClose={() => setShown(undefined)} />
    </Page>
  );
}
