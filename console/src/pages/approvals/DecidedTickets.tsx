/** Tickets that were decided or closed, with who decided. */
import { Button, Text } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";

import { api, need } from "../../api/client";
import type { Ticket } from "../../api/decisions";
import { usePagedList } from "../../api/paging";
import { approvals as texts } from "../../texts/approvals";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { Age, JsonDrawer, ShortId, Status } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import { Empty, Failure, Loading } from "../../ui/states";

const RUNS_A_PAGE = 100;
const route = getRouteApi("/approvals");

function Outcome({ ticket }: { ticket: Ticket }) {
  if (ticket.decision === null || ticket.decision === undefined) return <Status value="cancelled" label={texts.outcomes.closed} />;
  return ticket.decision.action === "resume" ? <Status value="ok" label={texts.outcomes.resume} /> : <Status value="failed" label={texts.outcomes.cancel} />;
}

const COLUMNS: readonly DataColumn<Ticket>[] = [
  { id: "tool", header: texts.columns.tool, cell: (it) => <Text span size="sm" ff="monospace"><ShownText text={it.tool_name} /></Text>, sortValue: (it) => it.tool_name },
  { id: "decision", header: texts.columns.decision, cell: (it) => <Outcome ticket={it} />, sortValue: (it) => it.decision?.action ?? "closed" },
  { id: "by", header: texts.columns.by, cell: (it) => it.decision?.decided_by ?? ui.none, sortValue: (it) => it.decision?.decided_by ?? null },
  { id: "when", header: texts.columns.when, cell: (it) => <Age at={it.decision?.decided_at ?? it.updated_at} />, sortValue: (it) => it.updated_at },
  { id: "reason", header: texts.columns.reason, cell: (it) => <ShownText text={it.decision?.reason ?? it.closed_because ?? ui.none} /> },
  { id: "edited", header: texts.columns.edited, cell: (it) => (it.decision?.arguments === null || it.decision?.arguments === undefined ? ui.none : texts.edited) },
  { id: "remembered", header: texts.columns.remembered, cell: (it) => it.decision?.remember?.scope ?? ui.none },
  { id: "message", header: texts.columns.message, cell: (it) => <ShownText text={it.suspension.message ?? ui.none} />, isHiddenAtFirst: true },
  { id: "run", header: texts.columns.run, cell: (it) => <Link to="/runs/$runId" params={{ runId: it.run_id }}><ShortId id={it.run_id} /></Link> },
];

export function DecidedTickets() {
  const { sort, columns } = route.useSearch();
  const change = useChangeSearch();
  const [shown, setShown] = useState<Ticket | undefined>(undefined);
  const list = usePagedList<Ticket>(["ticket", "decided"], (cursor, signal) => need(api.GET("/v1/tickets", { signal, params: { query: { status: "decided", limit: RUNS_A_PAGE, cursor } } })));
  if (list.isError) return <Failure error={list.error} onRetry={() => void list.refetch()} />;
  if (list.isPending) return <Loading />;
  return (
    <>
      <DataTable
        label={texts.views.decided}
        rows={list.rows}
        columns={COLUMNS}
        rowId={(it) => it.ticket_id}
        address={{ sort, columns }}
        onAddress={change}
        onOpen={setShown}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={() => void list.fetchNextPage()}
        empty={<Empty title={texts.decidedEmpty} action={<Button renderRoot={(props) => <Link to="/approvals" {...props} />}>{texts.seeOpen}</Button>}>{texts.decidedEmptyHelp}</Empty>}
      />
      <JsonDrawer title={shown?.tool_name} value={shown} onClose={() => setShown(undefined)} />
    </>
  );
}
