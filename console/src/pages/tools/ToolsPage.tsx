/** The list of tools. */
import { Badge, Button, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { capabilitiesQuery, factsQuery, recordsQuery, runtimeStatsQuery, switchesQuery } from "../../api/config";
import { agentsQuery } from "../../api/queries";
import { shell } from "../../texts/shell";
import { tools as texts } from "../../texts/tools";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { Filters } from "../../ui/Filters";
import { formatCount, formatDuration } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Empty, Failure, Loading, NeedsScope } from "../../ui/states";
import { filterTools, listTools, type ToolRow } from "./rows";
import { ToolDrawer } from "./ToolDrawer";

const route = getRouteApi("/tools");
const dimmed = <Text span c="dimmed">{ui.none}</Text>;

const COLUMNS: readonly DataColumn<ToolRow>[] = [
  {
    id: "tool", header: texts.columns.tool, sortValue: (it) => it.id,
    cell: (it) => (
      <Group gap={6} wrap="nowrap" component="span" display="inline-flex">
        <Link to="/tools" search={(now) => ({ ...now, tool: it.id })}>{it.id}</Link>
        {it.isOff === undefined ? null : <Badge variant="outline" color="red" c="inherit" title={it.isOff.reason}>{texts.off}</Badge>}
        {it.isOverridden ? <Badge variant="outline" color="gray" c="inherit">{texts.overridden}</Badge> : null}
      </Group>
    ),
  },
  { id: "description", header: texts.columns.description, cell: (it) => <Text span c="dimmed" size="sm" title={it.description}>{it.description}</Text> },
  { id: "source", header: texts.columns.source, cell: (it) => `${texts.sources[it.source.kind] ?? it.source.kind}${it.source.id == null ? "" : ` · ${it.source.id}`}`, sortValue: (it) => `${it.source.kind}${it.source.id ?? ""}` },
  { id: "effect", header: texts.columns.effect, cell: (it) => texts.effects[it.effect] ?? dimmed, sortValue: (it) => it.effect },
  { id: "agents", header: texts.columns.agents, cell: (it) => <span title={it.agents.join(", ")}>{it.agents.length}</span>, sortValue: (it) => it.agents.length, isRight: true },
  { id: "calls", header: texts.columns.calls, cell: (it) => (it.calls === 0 ? dimmed : formatCount(it.calls)), sortValue: (it) => it.calls, isRight: true },
  { id: "errors", header: texts.columns.errors, cell: (it) => (it.calls === 0 ? dimmed : formatCount(it.errors)), sortValue: (it) => it.errors, isRight: true },
  { id: "p95", header: texts.columns.p95, cell: (it) => (it.calls === 0 ? dimmed : formatDuration(it.p95)), sortValue: (it) => it.p95, isRight: true },
];
const SOURCES = Object.entries(texts.sources).map(([value, label]) => ({ value, label }));

export function ToolsPage() {
  return <NeedsScope scope="config"><ToolList /></NeedsScope>;
}

function ToolList() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const capabilities = useQuery(capabilitiesQuery);
  const { data: records = [] } = useQuery(recordsQuery("tools"));
  const { data: metas = [] } = useQuery(factsQuery("tools"));
  const { data: agents = [] } = useQuery(agentsQuery);
  const { data: stats = [] } = useQuery(runtimeStatsQuery);
  const { data: switches = [] } = useQuery(switchesQuery);
  const { sort, columns, tool, q, source } = search;
  const all = useMemo(() => listTools({ tools: capabilities.data?.tools ?? [], records, metas, agents, stats, switches }), [capabilities.data, records, metas, agents, stats, switches]);
  const rows = useMemo(() => filterTools(all, { q, source }), [all, q, source]);
  return (
    <Page title={shell.pages.tools} description={texts.description}>
      {capabilities.isError ? <Failure error={capabilities.error} onRetry={() => void capabilities.refetch()} /> : capabilities.isPending ? <Loading /> : (
        <DataTable
          label={shell.pages.tools}
          rows={rows}
          columns={COLUMNS}
          rowId={(it) => it.id}
          address={{ sort, columns }}
          onAddress={change}
          onOpen={(it) => change({ tool: it.id })}
          toolbar={<Filters values={{ q, source }} onChange={change} choices={[{ name: "source", label: texts.source, options: SOURCES }]} text={{ name: "q", placeholder: texts.search }} />}
          empty={all.length > 0 ? <Empty title={texts.emptyFiltered} /> : <Empty title={texts.empty} action={<Button variant="filled" renderRoot={(props) => <Link to="/mcp" {...props} />}>{texts.addServer}</Button>} command={texts.command}>{texts.emptyHelp}</Empty>}
        />
      )}
      <ToolDrawer tool={all.find((it) => it.id === tool)} onClose={() => change({ tool: undefined })} />
    </Page>
  );
}
