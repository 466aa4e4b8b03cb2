/** The list of runs. */
import { Button, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";

import { api, need, type Schemas } from "../../api/client";
import { useMay } from "../../api/caller";
import { usePagedList } from "../../api/paging";
import { agentsQuery, refreshKinds } from "../../api/queries";
import { runs as texts } from "../../texts/runs";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { useConfirm } from "../../ui/confirm";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { Filters } from "../../ui/Filters";
import { formatCount, formatTokens } from "../../ui/format";
import { noteDone, noteError } from "../../ui/notices";
import { Page } from "../../ui/Page";
import { Age, CopyableId, ShortId, Status, Took } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";

type Run = Schemas["RunView"];

function countTokens(run: Run): number {
  return (run.input_tokens ?? 0) + (run.output_tokens ?? 0);
}

const COLUMNS: readonly DataColumn<Run>[] = [
  { id: "run", header: texts.columns.run, cell: (it) => <Link to="/runs/$runId" params={{ runId: it.run_id }}><ShortId id={it.run_id} /></Link> },
  { id: "status", header: texts.columns.status, cell: (it) => <Status value={it.status} />, sortValue: (it) => it.status },
  { id: "agent", header: texts.columns.agent, cell: (it) => it.agent_id, sortValue: (it) => it.agent_id },
  { id: "kind", header: texts.columns.kind, cell: (it) => it.kind, sortValue: (it) => it.kind, isHiddenAtFirst: true },
  { id: "publication", header: texts.columns.publication, cell: (it) => it.publication ?? ui.none, sortValue: (it) => it.publication ?? null, isRight: true, isHiddenAtFirst: true },
  { id: "created", header: texts.columns.created, cell: (it) => <Age at={it.created_at} />, sortValue: (it) => it.created_at },
  { id: "took", header: texts.columns.took, cell: (it) => <Took from={it.started_at} to={it.finished_at} />, sortValue: (it) => it.duration_ms ?? null, isRight: true },
  { id: "steps", header: texts.columns.steps, cell: (it) => formatCount(it.steps), sortValue: (it) => it.steps, isRight: true },
  { id: "tokens", header: texts.columns.tokens, cell: (it) => formatTokens(countTokens(it)), sortValue: countTokens, isRight: true },
  { id: "end", header: texts.columns.end, cell: (it) => <Text span c="dimmed" size="sm">{it.termination_reason ?? it.waiting?.reason ?? ui.none}</Text> },
  { id: "thread", header: texts.columns.thread, cell: (it) => <CopyableId id={it.thread_id} />, isHiddenAtFirst: true },
];
const STATUSES = ["created", "running", "waiting", "done"];
const KINDS = ["chat", "task", "preview"];
const ENDS = ["natural_end", "behavior_requested", "stopped", "cancelled", "blocked", "error"];
const route = getRouteApi("/runs");

export function RunsPage() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const navigate = useNavigate();
  const may = useMay();
  const confirm = useConfirm();
  const { data: agents = [] } = useQuery(agentsQuery);
  const { sort, columns, ...filters } = search;
  const list = usePagedList<Run>(["run", "list", filters], (cursor, signal) => {
    const { agent, publication, ...rest } = filters;
    const query = { ...rest, agent_id: agent, publication: publication === undefined ? undefined : Number(publication), order: "desc", cursor, limit: 100 } as never;
    return need(api.GET("/v1/runs", { params: { query }, signal }));
  });

  const cancel = async (chosen: Run[], clear: () => void) => {
    if (!(await confirm({ title: texts.cancelTitle(chosen.length), body: texts.cancelBody, confirm: texts.cancel, isDangerous: true }))) return;
    try {
      await need(api.POST("/v1/batch", { body: { action: "cancel", ids: chosen.map((it) => it.run_id) } as never }));
      noteDone(texts.cancelled(chosen.length));
      clear();
      await refreshKinds("run");
    } catch (error) {
      noteError(error);
    }
  };

  const choices = useMemo(
    () => [
      { name: "status", label: texts.status, options: STATUSES },
      { name: "agent", label: texts.agent, options: agents.map((it) => it.id), width: 170 },
      { name: "kind", label: texts.kind, options: KINDS, width: 110 },
      { name: "ended", label: texts.ended, options: ENDS },
    ],
    [agents],
  );
  const isFiltered = Object.values(filters).some((it) => it !== undefined);
  return (
    <Page title={shell.pages.runs} description={texts.description}>
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.isPending ? <Loading /> : (
        <DataTable
          label={shell.pages.runs}
          rows={list.rows}
          columns={COLUMNS}
          rowId={(it) => it.run_id}
          address={{ sort, columns }}
          onAddress={change}
          onOpen={(it) => void navigate({ to: "/runs/$runId", params: { runId: it.run_id } })}
          selectionActions={may("invoke") ? (chosen, clear) => <Button onClick={() => void cancel(chosen, clear)}>{texts.cancel}</Button> : undefined}
          hasMore={list.hasNextPage}
          isLoadingMore={list.isFetchingNextPage}
          onMore={() => void list.fetchNextPage()}
          toolbar={<Filters values={filters} onChange={change} choices={choices} text={{ name: "q", placeholder: texts.search }} />}
          empty={isFiltered ? <Empty title={texts.emptyFiltered} /> : (
            <Empty title={texts.empty} action={<Button variant="filled" renderRoot={(props) => <Link to="/chat/{-$threadId}" {...props} />}>{texts.startChat}</Button>} command={texts.command}>{texts.emptyHelp}</Empty>
          )}
        />
      )}
    </Page>
  );
}
