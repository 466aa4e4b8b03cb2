/** MCP servers: the records, and the connection of this process to each. */
import { Text } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQueries } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { ApiError } from "../../api/errors";
import { api, need, type Schemas } from "../../api/client";
import { mcp as texts } from "../../texts/servers";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { Filters } from "../../ui/Filters";
import { Page } from "../../ui/Page";
import { Status } from "../../ui/parts";
import { Empty, Failure, Loading, NeedsScope } from "../../ui/states";
import { ActionButton, Owner } from "../records/parts";
import { RecordDrawer } from "../records/RecordDrawer";
import { useRecords, type RecordRow } from "../records/useRecords";
import { McpDrawer } from "./McpDrawer";

const route = getRouteApi("/mcp");
export type ServerRow = RecordRow & { status: Schemas["McpServerView"] | null };

/** The look of a connection, by a word that has one. */
export function stateOf(row: ServerRow): { value: string; label: string } {
  if (row.record.enabled === false) return { value: "stopped", label: texts.off };
  if (row.status === null) return { value: "created", label: ui.none };
  if (row.status.connected) return { value: "ok", label: row.status.state };
  return { value: row.status.permanently_failed || row.status.last_error != null ? "failed" : "running", label: row.status.state };
}

function targetOf({ record }: RecordRow): string {
  if (record.transport === "http") return String(record.url ?? "");
  return [record.command, ...(Array.isArray(record.args) ? (record.args as unknown[]) : [])].filter((it) => it !== null && it !== undefined).join(" ");
}

const COLUMNS: readonly DataColumn<ServerRow>[] = [
  { id: "server", header: texts.columns.server, cell: (it) => <Link to="/mcp" search={(now) => ({ ...now, id: it.id })}>{it.id}</Link>, sortValue: (it) => it.id },
  { id: "state", header: texts.columns.state, cell: (it) => <Status {...stateOf(it)} />, sortValue: (it) => stateOf(it).label },
  { id: "transport", header: texts.columns.transport, cell: (it) => String(it.record.transport ?? ui.none), sortValue: (it) => String(it.record.transport ?? "") },
  { id: "target", header: texts.columns.target, cell: (it) => <Text span size="xs" ff="monospace" title={targetOf(it)}>{targetOf(it)}</Text> },
  { id: "tools", header: texts.columns.tools, cell: (it) => it.status?.tools?.length ?? ui.none, sortValue: (it) => it.status?.tools?.length ?? 0, isRight: true },
  { id: "protocol", header: texts.columns.protocol, cell: (it) => it.status?.protocol_version ?? ui.none },
  { id: "owner", header: texts.columns.owner, cell: (it) => <Owner owner={it.meta?.owner} hasDrift={it.meta?.drift} /> },
  { id: "error", header: texts.columns.error, cell: (it) => <Text span size="sm" c="dimmed" title={it.status?.last_error ?? undefined}>{it.status?.last_error ?? ui.none}</Text> },
];

/** The connections; a server that this process does not have yet has none. They change by themselves, so they are asked for often. */
function useStatuses(ids: readonly string[]) {
  return useQueries({
    queries: ids.map((id) => ({
      queryKey: ["config", "mcp-status", id],
      queryFn: async ({ signal }: { signal: AbortSignal }) => {
        try {
          return await need(api.GET("/v1/mcp-servers/{server_id}/status", { params: { path: { server_id: id } }, signal }));
        } catch (error) {
          if (error instanceof ApiError && error.status === 404) return null;
          throw error;
        }
      },
      refetchInterval: 3_000,
    })),
  });
}

export function McpPage() {
  return <NeedsScope scope="config"><ServerList /></NeedsScope>;
}

const FIRST = ["transport", "command", "url", "args", "env", "headers", "enabled", "trusted"];
const TEMPLATE = { transport: "stdio", command: "", args: [] } as const;

function ServerList() {
  const { q, id, edit, sort, columns } = route.useSearch();
  const change = useChangeSearch();
  const { list, rows } = useRecords("mcp-servers");
  const statuses = useStatuses(rows.map((it) => it.id));
  const all = rows.map((it, index): ServerRow => ({ ...it, status: statuses[index]?.data ?? null }));
  const shown = useMemo(() => all.filter((it) => q === undefined || it.id.toLowerCase().includes(q.toLowerCase())), [all, q]);
  const add = <ActionButton scope="config" variant="filled" leftSection={<IconPlus size={14} />} onClick={() => change({ edit: "new" })}>{texts.add}</ActionButton>;
  return (
    <Page title={shell.pages.mcp} description={texts.description} actions={add}>
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.isPending ? <Loading /> : (
        <DataTable
          label={shell.pages.mcp}
          rows={shown}
          columns={COLUMNS}
          rowId={(it) => it.id}
          address={{ sort, columns }}
          onAddress={change}
          onOpen={(it) => change({ id: it.id })}
          toolbar={all.length === 0 ? null : <Filters values={{ q }} onChange={change} text={{ name: "q", placeholder: texts.search }} />}
          empty={all.length > 0 ? <Empty title={texts.emptyFiltered} /> : <Empty title={texts.empty} action={add} command={texts.command}>{texts.emptyHelp}</Empty>}
        />
      )}
      <McpDrawer row={edit === undefined ? all.find((it) => it.id === id) : undefined} onClose={() => change({ id: undefined })} onEdit={(it) => change({ edit: it })} />
      <RecordDrawer namespace="mcp-servers" name={texts.one} id={edit === "new" ? "" : edit} onClose={() => change({ edit: undefined })} template={TEMPLATE} first={FIRST} hide={["config", "oauth", "pins"]} onPublished={(it) => change({ edit: undefined, id: it })} />
    </Page>
  );
}
