/** The list of agents. */
import { Badge, Group, Text } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";

import { useMay } from "../../api/caller";
import { factsQuery, runtimeStatsQuery, switchesQuery } from "../../api/config";
import { draftsQuery } from "../../api/drafts";
import { agentsQuery } from "../../api/queries";
import { agents as texts } from "../../texts/agents";
import { records } from "../../texts/records";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { Filters } from "../../ui/Filters";
import { formatCount, formatDuration, formatSpent } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { Page } from "../../ui/Page";
import { Age } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import { Owner } from "../records/parts";
import { CreateAgent } from "./CreateAgent";
import { filterAgents, listAgents, type AgentRow } from "./rows";

const route = getRouteApi("/agents");
const dimmed = <Text span c="dimmed">{ui.none}</Text>;

const COLUMNS: readonly DataColumn<AgentRow>[] = [
  {
    id: "agent", header: texts.columns.agent, sortValue: (it) => it.id,
    cell: (it) => (
      <Group gap={6} wrap="nowrap" component="span" display="inline-flex">
        <Link to="/agents/$agentId" params={{ agentId: it.id }} search={it.draftId === undefined ? {} : { draft: it.draftId }}>{it.id}</Link>
        {it.draftId === undefined ? null : <Badge variant="outline" color="gray" c="inherit">{texts.inDraft}</Badge>}
        {it.isPaused ? <Badge variant="outline" color="red" c="inherit">{texts.switchedOff}</Badge> : null}
      </Group>
    ),
  },
  { id: "description", header: texts.columns.description, cell: (it) => <Text span c="dimmed" size="sm" title={it.description}>{it.description}</Text> },
  { id: "model", header: texts.columns.model, cell: (it) => it.model || dimmed, sortValue: (it) => it.model },
  { id: "tools", header: texts.columns.tools, cell: (it) => it.tools ?? dimmed, sortValue: (it) => it.tools, isRight: true },
  { id: "runs", header: texts.columns.runs, cell: (it) => (it.stats === undefined ? dimmed : formatCount(it.stats.run_count)), sortValue: (it) => it.stats?.run_count ?? 0, isRight: true },
  { id: "errors", header: texts.columns.errors, cell: (it) => (it.stats === undefined ? dimmed : formatCount(it.stats.run_error_count + it.stats.error_count)), sortValue: (it) => (it.stats?.run_error_count ?? 0) + (it.stats?.error_count ?? 0), isRight: true },
  { id: "p95", header: texts.columns.p95, cell: (it) => ((it.stats?.inference_count ?? 0) === 0 ? dimmed : formatDuration(it.stats?.p95_inference_duration_ms ?? 0)), sortValue: (it) => it.stats?.p95_inference_duration_ms ?? 0, isRight: true },
  { id: "cost", header: texts.columns.cost, cell: (it) => (it.stats === undefined ? dimmed : formatSpent(it.stats.cost_nanos, it.stats.input_tokens + it.stats.output_tokens) ?? dimmed), sortValue: (it) => it.stats?.cost_nanos ?? 0, isRight: true },
  { id: "owner", header: texts.columns.owner, cell: (it) => <Owner owner={it.meta?.owner} hasDrift={it.meta?.drift} />, sortValue: (it) => it.meta?.owner ?? "" },
  { id: "updated", header: texts.columns.updated, cell: (it) => <Age at={it.meta?.updated_at === 0 ? null : it.meta?.updated_at} />, sortValue: (it) => it.meta?.updated_at ?? 0, isHiddenAtFirst: true },
];
const OWNERS = [...Object.entries(records.owners).map(([value, label]) => ({ value, label })), { value: "file", label: "File" }];

export function AgentsPage() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const navigate = useNavigate();
  const may = useMay();
  const enabled = may("config");
  const agents = useQuery(agentsQuery);
  const { data: stats = [] } = useQuery({ ...runtimeStatsQuery, enabled });
  const { data: metas = [] } = useQuery({ ...factsQuery("agents"), enabled });
  const { data: drafts = [] } = useQuery({ ...draftsQuery, enabled });
  const { data: switches = [] } = useQuery({ ...switchesQuery, enabled });
  const { sort, columns, new: isNew, ...filters } = search;
  const all = useMemo(() => listAgents({ agents: agents.data ?? [], stats, metas, drafts, switches }), [agents.data, stats, metas, drafts, switches]);
  const rows = useMemo(() => filterAgents(all, filters), [all, filters.q, filters.owner, filters.model]);
  const models = useMemo(() => [...new Set(all.map((it) => it.model).filter((it) => it !== ""))].sort(), [all]);
  const create = <GatedButton scope="config" variant="filled" leftSection={<IconPlus size={14} />} onClick={() => change({ new: "1" })}>{texts.new}</GatedButton>;
  return (
    <Page title={shell.pages.agents} description={texts.description} actions={create}>
      {agents.isError ? <Failure error={agents.error} onRetry={() => void agents.refetch()} /> : agents.isPending ? <Loading /> : (
        <DataTable
          label={shell.pages.agents}
          rows={rows}
          columns={COLUMNS}
          rowId={(it) => it.id}
          address={{ sort, columns }}
          onAddress={change}
          onOpen={(it) => void navigate({ to: "/agents/$agentId", params: { agentId: it.id }, search: it.draftId === undefined ? {} : { draft: it.draftId } })}
          toolbar={<Filters values={filters} onChange={change} choices={[{ name: "owner", label: records.owner, options: OWNERS }, { name: "model", label: texts.model, options: models, width: 170 }]} text={{ name: "q", placeholder: texts.search }} />}
          empty={all.length > 0 ? <Empty title={texts.emptyFiltered} /> : <Empty title={texts.empty} action={create} command={texts.command}>{texts.emptyHelp}</Empty>}
        />
      )}
      <CreateAgent isOpen={isNew !== undefined} onClose={() => change({ new: undefined })} taken={all.map((it) => it.id)} />
    </Page>
  );
}
