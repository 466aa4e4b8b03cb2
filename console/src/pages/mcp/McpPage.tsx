/** MCP servers: the records, and the connection of this process to each. */
import { Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { api, need } from "../../api/client";
import { mcp as texts } from "../../texts/servers";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import type { DataColumn } from "../../ui/DataTable";
import { Page } from "../../ui/Page";
import { Status } from "../../ui/parts";
import { NeedsScope } from "../../ui/states";
import { OWNER_COLUMN } from "../records/parts";
import { RecordList } from "../records/RecordList";
import { useRecords } from "../records/useRecords";
import { useStatuses } from "../records/useStatuses";
import { RestartButton, ServerDetails } from "./ServerDetails";
import { stateOf, targetOf, type ServerRow } from "./servers";

const route = getRouteApi("/mcp");
const EVERY_MS = 3_000;

const COLUMNS: readonly DataColumn<ServerRow>[] = [
  { id: "state", header: texts.columns.state, cell: (it) => <Status {...stateOf(it)} />, sortValue: (it) => stateOf(it).label },
  { id: "transport", header: texts.columns.transport, cell: (it) => String(it.record.transport ?? ui.none), sortValue: (it) => String(it.record.transport ?? "") },
  { id: "target", header: texts.columns.target, cell: (it) => <Text span size="xs" ff="monospace" title={targetOf(it.record)}>{targetOf(it.record)}</Text> },
  { id: "tools", header: texts.columns.tools, cell: (it) => it.status?.tools?.length ?? ui.none, sortValue: (it) => it.status?.tools?.length ?? 0, isRight: true },
  { id: "protocol", header: texts.columns.protocol, cell: (it) => it.status?.protocol_version ?? ui.none },
  OWNER_COLUMN,
  { id: "error", header: texts.columns.error, cell: (it) => <Text span size="sm" c="dimmed" title={it.status?.last_error ?? undefined}>{it.status?.last_error ?? ui.none}</Text> },
];
const FORM = {
  template: { transport: "stdio", command: "", args: [] },
  first: ["transport", "command", "url", "args", "env", "headers", "enabled", "trusted"],
  hide: ["config", "oauth"],
} as const;

export function McpPage() {
  return <NeedsScope scope="config"><ServerList /></NeedsScope>;
}

function ServerList() {
  const { list, rows } = useRecords("mcp-servers");
  const statuses = useStatuses("mcp-status", rows.map((it) => it.id), EVERY_MS, (id, signal) => need(api.GET("/v1/mcp-servers/{server_id}/status", { params: { path: { server_id: id } }, signal })));
  const all = rows.map((it, index): ServerRow => ({ ...it, status: statuses[index] ?? null }));
  const details = { state: (it: ServerRow) => <Status {...stateOf(it)} />, actions: (it: ServerRow) => <RestartButton row={it} />, body: (it: ServerRow) => <ServerDetails row={it} /> };
  return (
    <Page title={shell.pages.mcp} description={texts.description}>
      <RecordList label={shell.pages.mcp} namespace="mcp-servers" texts={texts} search={route.useSearch()} list={list} rows={all} columns={COLUMNS} form={FORM} details={details} />
    </Page>
  );
}
