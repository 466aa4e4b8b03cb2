/** The processes of the deployment: what runs in them, what they have applied, and whether they differ. */
import { Alert, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { api, need, type Schemas } from "../../api/client";
import { systemInfoQuery } from "../../api/queries";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { workers as texts } from "../../texts/workers";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { formatDuration } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Figure, Figures, Panel } from "../../ui/Panel";
import { Age, CopyableId, JsonDrawer, Status, useNow } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import { groupBy, type ValueGroup } from "./groups";

type Worker = Omit<Schemas["WorkerEntry"], "statistics">;
const route = getRouteApi("/workers");
const SLOW_MS = 100;

function UpFor({ from }: { from: number }) {
  return <>{formatDuration(Math.max(0, useNow() - from))}</>;
}

function Problem({ it }: { it: Worker }) {
  const unusable = Object.entries(it.unusable ?? {});
  if (it.problem === null && unusable.length === 0) return <Text span c="dimmed" size="sm">{ui.none}</Text>;
  return <span title={unusable.map(([agent, why]) => `${agent}: ${why}`).join("\n")}><Status value="error" label={it.problem ?? texts.unusable(unusable.length)} /></span>;
}

const COLUMNS: readonly DataColumn<Worker>[] = [
  { id: "id", header: texts.columns.id, cell: (it) => <CopyableId id={it.id} chars={22} />, sortValue: (it) => it.id },
  { id: "host", header: texts.columns.host, cell: (it) => it.host, sortValue: (it) => it.host },
  { id: "pid", header: texts.columns.pid, cell: (it) => it.pid, sortValue: (it) => it.pid, isRight: true, isHiddenAtFirst: true },
  { id: "version", header: texts.columns.version, cell: (it) => it.version, sortValue: (it) => it.version },
  { id: "agents", header: texts.columns.agents, cell: (it) => <span title={it.agents.join(", ")}>{it.agent_count}</span>, sortValue: (it) => it.agent_count, isRight: true },
  { id: "running", header: texts.columns.running, cell: (it) => `${it.running} / ${it.slots}`, sortValue: (it) => it.running, isRight: true },
  { id: "lag", header: texts.columns.lag, cell: (it) => (it.loop_lag_ms > SLOW_MS ? <Status value="error" label={`${formatDuration(it.loop_lag_ms)} ${texts.slowLag}`} /> : formatDuration(it.loop_lag_ms)), sortValue: (it) => it.loop_lag_ms, isRight: true },
  { id: "publication", header: texts.columns.publication, cell: (it) => it.publication ?? texts.codeAlone, sortValue: (it) => it.publication, isRight: true },
  { id: "applied", header: texts.columns.applied, cell: (it) => <Age at={it.applied_at} />, sortValue: (it) => it.applied_at, isHiddenAtFirst: true },
  { id: "problem", header: texts.columns.problem, cell: (it) => <Problem it={it} /> },
  { id: "started", header: texts.columns.started, cell: (it) => <UpFor from={it.started_at} />, sortValue: (it) => it.started_at },
  { id: "beat", header: texts.columns.beat, cell: (it) => <Age at={it.at} />, sortValue: (it) => it.at },
];

function Mixed({ title, help, groups }: { title: string; help: string; groups: readonly ValueGroup[] }) {
  if (groups.length < 2) return null;
  return <Alert color="yellow" title={title}>{groups.map((it) => texts.countOn(it.count, it.value)).join(" · ")}. {help}</Alert>;
}

function Health() {
  const health = useQuery({ queryKey: ["system", "health"], queryFn: async ({ signal }) => (await api.GET("/health", { signal })).data });
  const components = Object.entries(health.data?.components ?? {});
  return (
    <Panel title={texts.components} actions={health.data === undefined ? undefined : <Status value={health.data.status} />}>
      <Group gap="xl">{components.map(([name, state]) => <Group key={name} gap={6}><Text size="sm" c="dimmed">{name}</Text><Status value={state === "ok" ? "ok" : "error"} label={state} /></Group>)}</Group>
    </Panel>
  );
}

export function WorkersPage() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const list = useQuery({ queryKey: ["worker", "list"], queryFn: async ({ signal }) => (await need(api.GET("/v1/system/workers", { signal }))).items, refetchInterval: 10_000 });
  const { data: info } = useQuery(systemInfoQuery);
  const rows = list.data ?? [];
  const versions = groupBy(rows, (it) => it.version);
  const publications = groupBy(rows, (it) => (it.publication === null ? texts.codeAlone : String(it.publication)));
  const shown = rows.find((it) => it.id === search.worker);
  return (
    <Page title={shell.pages.workers} description={texts.description}>
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.isPending ? <Loading /> : (
        <Stack gap="md">
          <Figures>
            <Figure name={texts.figures.processes}>{rows.length}</Figure>
            <Figure name={texts.figures.running}>{`${rows.reduce((sum, it) => sum + it.running, 0)} / ${rows.reduce((sum, it) => sum + it.slots, 0)}`}</Figure>
            <Figure name={texts.figures.version}>{versions.map((it) => it.value).join(", ") || ui.none}</Figure>
            <Figure name={texts.figures.publication}><Link to="/changes">{publications.map((it) => it.value).join(", ") || ui.none}</Link></Figure>
            <Figure name={texts.figures.store}>{info?.store ?? ui.none}</Figure>
          </Figures>
          <Mixed title={texts.mixedVersions} help={texts.mixedVersionsHelp} groups={versions} />
          <Mixed title={texts.mixedPublications} help={texts.mixedPublicationsHelp} groups={publications} />
          <DataTable
            label={shell.pages.workers}
            rows={rows}
            columns={COLUMNS}
            rowId={(it) => it.id}
            address={{ sort: search.sort, columns: search.columns }}
            onAddress={change}
            onOpen={(it) => change({ worker: it.id })}
            empty={<Empty title={texts.empty} command={texts.command}>{texts.emptyHelp}</Empty>}
          />
          <Health />
        </Stack>
      )}
      <JsonDrawer title={search.worker ?? ""} value={shown} onClose={() => change({ worker: undefined })} />
    </Page>
  );
}
