/** A2A servers: the records, and what the last read of each card gave. */
import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { api, need, type Schemas } from "../../api/client";
import { recordsQuery } from "../../api/config";
import { a2a as texts } from "../../texts/servers";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import type { DataColumn } from "../../ui/DataTable";
import { Page } from "../../ui/Page";
import { Age, JsonText, Status } from "../../ui/parts";
import { NeedsScope } from "../../ui/states";
import { OWNER_COLUMN } from "../records/parts";
import { Part, RecordList } from "../records/RecordList";
import { useRecords, type RecordRow } from "../records/useRecords";
import { useStatuses } from "../records/useStatuses";

const route = getRouteApi("/a2a");
const EVERY_MS = 5_000;
type RemoteRow = RecordRow & { status: Schemas["RemoteView"] | null };

function stateOf({ status }: RemoteRow): { value: string; label: string } {
  if (status === null) return { value: "created", label: ui.none };
  if (status.connected) return { value: "ok", label: "connected" };
  return status.last_error == null ? { value: "running", label: "connecting" } : { value: "failed", label: "failed" };
}

const COLUMNS: readonly DataColumn<RemoteRow>[] = [
  { id: "state", header: texts.columns.state, cell: (it) => <Status {...stateOf(it)} />, sortValue: (it) => stateOf(it).label },
  { id: "url", header: texts.columns.url, cell: (it) => <Text span ff="monospace" size="xs">{String(it.record.base_url ?? "")}</Text>, sortValue: (it) => String(it.record.base_url ?? "") },
  { id: "agent", header: texts.columns.agent, cell: (it) => it.status?.agent_id ?? ui.none },
  { id: "checked", header: texts.columns.checked, cell: (it) => <Age at={it.status?.checked_at == null ? null : it.status.checked_at * 1_000} /> },
  OWNER_COLUMN,
  { id: "error", header: texts.columns.error, cell: (it) => <Text span size="sm" c="dimmed" title={it.status?.last_error ?? undefined}>{it.status?.last_error ?? ui.none}</Text> },
];
const FORM = { template: { base_url: "" } } as const;

export function A2aPage() {
  return <NeedsScope scope="config"><RemoteList /></NeedsScope>;
}

function RemoteList() {
  const { list, rows } = useRecords("a2a-servers");
  const statuses = useStatuses("a2a-status", rows.map((it) => it.id), EVERY_MS, (id, signal) => need(api.GET("/v1/a2a-servers/{registry_id}/status", { params: { path: { registry_id: id } }, signal })));
  const all = rows.map((it, index): RemoteRow => ({ ...it, status: statuses[index] ?? null }));
  return (
    <Page title={shell.pages.a2a} description={texts.description}>
      <RecordList label={shell.pages.a2a} namespace="a2a-servers" texts={texts} search={route.useSearch()} list={list} rows={all} columns={COLUMNS} form={FORM} details={{ state: (it) => <Status {...stateOf(it)} />, body: (it) => <RemoteDetails row={it} /> }} />
    </Page>
  );
}

function RemoteDetails({ row: { status, record } }: { row: RemoteRow }) {
  const { data: agents = [] } = useQuery(recordsQuery("agents"));
  const users = agents.filter((it) => Array.isArray(it.delegates) && (it.delegates as unknown[]).includes(status?.agent_id));
  return (
    <>
      {status?.last_error == null ? null : <Text size="sm" c="var(--mantine-color-error)" role="alert" style={{ overflowWrap: "anywhere" }}>{status.last_error}</Text>}
      <Text size="sm">{texts.auth}: {record.has_auth === true ? texts.hasAuth : texts.noAuth}</Text>
      <Part title={texts.usedBy}>{users.length === 0 ? <Text size="sm" c="dimmed">{texts.nobody}</Text> : users.map((it) => <Link key={it.id} to="/agents/$agentId" params={{ agentId: it.id }}>{it.id}</Link>)}</Part>
      <Part title={texts.card}>{status?.card == null ? <Text size="sm" c="dimmed">{texts.noCard}</Text> : <JsonText value={status.card} />}</Part>
    </>
  );
}
