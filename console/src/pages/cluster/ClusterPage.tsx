/** The cluster: its nodes, what waits and what is held, what carries signals, and whether its processes differ. */
import { Alert, Group, List, SimpleGrid, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, type ReactNode } from "react";

import { BEAT_MS, clusterQuery, scaleQuery, workersQuery, type Cluster } from "../../api/cluster";
import { api } from "../../api/client";
import { systemInfoQuery } from "../../api/queries";
import { cluster as texts } from "../../texts/cluster";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { formatCount, formatDuration } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Figure, Figures, Panel } from "../../ui/Panel";
import { Age, CopyIcon, JsonDrawer, Status, useNow } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import classes from "./ClusterPage.module.css";
import { groupBy, type ValueGroup } from "./groups";
import { busyOf, joinNodes, listLive, nameAddress, nameNode, slotsOf, versionOf, type NodeRow, type Worker } from "./nodes";

const route = getRouteApi("/cluster");
const SLOW_MS = 100;
const LOOKS: Readonly<Record<string, string>> = { ok: "ok", busy: "running", draining: "paused", late: "error", over: "ended" };
const NONE = <Text span c="dimmed" size="sm">{ui.none}</Text>;

function UpFor({ from }: { from: number }) {
  return <>{formatDuration(Math.max(0, useNow() - from))}</>;
}

function Problem({ worker }: { worker: Worker | undefined }) {
  const unusable = Object.entries(worker?.unusable ?? {});
  const problem = worker?.problem ?? null;
  if (problem === null && unusable.length === 0) return NONE;
  return <span title={unusable.map(([agent, why]) => `${agent}: ${why}`).join("\n")}><Status value="error" label={problem ?? texts.unusable(unusable.length)} /></span>;
}

function Lag({ ms }: { ms: number }) {
  return ms > SLOW_MS ? <Status value="error" label={`${formatDuration(ms)} ${texts.slowLag}`} /> : <>{formatDuration(ms)}</>;
}

function Agents({ row: { node, worker } }: { row: NodeRow }) {
  if (worker !== undefined) return <span title={worker.agents.join(", ")}>{worker.agent_count}</span>;
  return node === undefined ? NONE : node.agents === null ? <>{texts.anyAgent}</> : <span title={node.agents.join(", ")}>{node.agents.length}</span>;
}

function Node({ row }: { row: NodeRow }) {
  return <Group gap={2} wrap="nowrap" component="span" display="inline-flex"><Text span ff="monospace" size="xs" title={row.id}>{nameNode(row)}</Text><CopyIcon value={row.id} label={`${ui.copy} ${row.id}`} /></Group>;
}

/** The time of the last beat: the list of nodes says how long ago, and a report when. */
const beatOf = ({ node, worker }: NodeRow, at: number): number | null => (node === undefined ? worker?.at ?? null : at - node.beat_ms);
const startOf = ({ node, worker }: NodeRow): number => node?.started_at ?? worker?.started_at ?? 0;

function listColumns(at: number): readonly DataColumn<NodeRow>[] {
  const named = texts.columns;
  return [
    { id: "id", header: named.id, cell: (it) => <Node row={it} />, sortValue: nameNode },
    { id: "kind", header: named.kind, cell: ({ node }) => (node === undefined ? NONE : texts.kinds[node.kind] ?? node.kind), sortValue: ({ node }) => node?.kind ?? "" },
    { id: "state", header: named.state, cell: ({ node }) => (node === undefined ? NONE : <Status value={LOOKS[node.state] ?? node.state} label={texts.states[node.state] ?? node.state} />), sortValue: ({ node }) => node?.state ?? "" },
    { id: "host", header: named.host, cell: ({ node, worker }) => node?.host ?? worker?.host, sortValue: ({ node, worker }) => node?.host ?? worker?.host ?? "", isHiddenAtFirst: true },
    { id: "pid", header: named.pid, cell: ({ node, worker }) => node?.pid ?? worker?.pid, sortValue: ({ node, worker }) => node?.pid ?? worker?.pid ?? 0, isRight: true, isHiddenAtFirst: true },
    { id: "version", header: named.version, cell: versionOf, sortValue: versionOf },
    { id: "schema", header: named.schema, cell: ({ node }) => node?.schema_no ?? NONE, sortValue: ({ node }) => node?.schema_no ?? null, isRight: true, isHiddenAtFirst: true },
    { id: "agents", header: named.agents, cell: (it) => <Agents row={it} />, sortValue: ({ node, worker }) => worker?.agent_count ?? node?.agents?.length ?? null, isRight: true },
    { id: "running", header: named.running, cell: (it) => `${busyOf(it)} / ${slotsOf(it)}`, sortValue: busyOf, isRight: true },
    { id: "claims", header: named.claims, cell: ({ node }) => (node === undefined ? NONE : formatCount(node.claims)), sortValue: ({ node }) => node?.claims ?? null, isRight: true },
    { id: "lag", header: named.lag, cell: ({ worker }) => (worker === undefined ? NONE : <Lag ms={worker.loop_lag_ms} />), sortValue: ({ worker }) => worker?.loop_lag_ms ?? null, isRight: true },
    { id: "publication", header: named.publication, cell: ({ worker }) => (worker === undefined ? NONE : worker.publication ?? texts.codeAlone), sortValue: ({ worker }) => worker?.publication ?? null, isRight: true },
    { id: "applied", header: named.applied, cell: ({ worker }) => <Age at={worker?.applied_at ?? null} />, sortValue: ({ worker }) => worker?.applied_at ?? null, isHiddenAtFirst: true },
    { id: "problem", header: named.problem, cell: ({ worker }) => <Problem worker={worker} /> },
    { id: "started", header: named.started, cell: (it) => (it.node?.state === "over" ? NONE : <UpFor from={startOf(it)} />), sortValue: startOf },
    { id: "beat", header: named.beat, cell: (it) => <Age at={beatOf(it, at)} />, sortValue: (it) => beatOf(it, at) },
  ];
}

function Mixed({ title, help, groups }: { title: string; help: string; groups: readonly ValueGroup[] }) {
  if (groups.length < 2) return null;
  return <Alert color="yellow" title={title}>{groups.map((it) => texts.countOn(it.count, it.value)).join(" · ")}. {help}</Alert>;
}

function Facts({ rows }: { rows: readonly (readonly [string, ReactNode])[] }) {
  return <dl className={classes.facts}>{rows.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

const since = (ms: number | null) => (ms === null ? ui.none : formatDuration(ms));

function Load({ cluster: { nodes, queue, claims, carrier, leases, schema, sweep } }: { cluster: Cluster }) {
  const bad = (count: number) => (count === 0 ? formatCount(count) : <Status value="error" label={formatCount(count)} />);
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
      <Panel title={texts.queue} actions={<Link to="/queue">{shell.pages.queue}</Link>}>
        <Facts rows={[[texts.due, formatCount(queue.due)], [texts.oldest, since(queue.oldest_due_ms)], [texts.delayed, formatCount(queue.delayed)], [texts.dead, bad(queue.dead_letters)], [texts.held, formatCount(claims.held)], [texts.ofDead, bad(claims.of_dead_nodes)], [texts.beat, since(claims.oldest_beat_ms)]]} />
      </Panel>
      <Panel title={texts.carriage}>
        <Facts rows={[
          [texts.carrier, carrier === null ? texts.noCarrier : <Status key="carrier" value={carrier.is_up ? "ok" : "down"} label={texts.carrierIs(carrier.kind, carrier.is_up)} />],
          ...(carrier === null ? [] : [[texts.dropped, formatCount(carrier.dropped)] as const]),
          [texts.leases, texts.leaseOf[leases] ?? leases],
          [texts.schema, schema === null ? ui.none : texts.schemaIs(schema.found, schema.known, schema.readable_from)],
          [texts.sweep, sweep === null ? texts.noSweep : texts.sweepIs(formatDuration(sweep.age_ms), nameAddress(nodes, sweep.by))],
        ]} />
      </Panel>
    </SimpleGrid>
  );
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

/** The figures of all nodes, and in what they differ. */
function Summary({ rows }: { rows: readonly NodeRow[] }) {
  const { data: info } = useQuery(systemInfoQuery);
  const { data: scale } = useQuery({ ...scaleQuery, retry: false });
  const sum = (read: (row: NodeRow) => number) => rows.reduce((total, it) => total + read(it), 0);
  const versions = groupBy(rows, versionOf);
  const publications = groupBy(rows.flatMap(({ worker }) => (worker === undefined ? [] : [worker])), (it) => (it.publication === null ? texts.codeAlone : String(it.publication)));
  return (
    <>
      <Figures>
        <Figure name={texts.figures.nodes}>{rows.length}</Figure>
        <Figure name={texts.figures.running}>{`${sum(busyOf)} / ${sum(slotsOf)}`}</Figure>
        {scale === undefined ? null : <Figure name={texts.figures.wanted} help={texts.wantedHelp}>{formatCount(scale.desired_slots)}</Figure>}
        <Figure name={texts.figures.version}>{versions.map((it) => it.value).join(", ") || ui.none}</Figure>
        <Figure name={texts.figures.publication}><Link to="/changes">{publications.map((it) => it.value).join(", ") || ui.none}</Link></Figure>
        <Figure name={texts.figures.store}>{info?.store ?? ui.none}</Figure>
      </Figures>
      <Mixed title={texts.mixedVersions} help={texts.mixedVersionsHelp} groups={versions} />
      <Mixed title={texts.mixedPublications} help={texts.mixedPublicationsHelp} groups={publications} />
    </>
  );
}

export function ClusterPage() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const workers = useQuery({ ...workersQuery, refetchInterval: BEAT_MS });
  const cluster = useQuery({ ...clusterQuery, retry: false });
  const rows = useMemo(() => joinNodes(cluster.data?.nodes ?? [], workers.data ?? []), [cluster.data, workers.data]);
  const columns = useMemo(() => listColumns(cluster.data?.at ?? 0), [cluster.data?.at]);
  const shown = rows.find((it) => it.id === search.node);
  const problems = cluster.data?.problems ?? [];
  return (
    <Page title={shell.pages.cluster} description={texts.description}>
      {workers.isError ? <Failure error={workers.error} onRetry={() => void workers.refetch()} /> : workers.isPending || cluster.isPending ? <Loading /> : (
        <Stack gap="md">
          {cluster.isError ? <Failure error={cluster.error} onRetry={() => void cluster.refetch()} /> : null}
          {problems.length === 0 ? null : <Alert color="red" role="alert" title={texts.problems}><List size="sm">{problems.map((it) => <List.Item key={it.code}>{it.text}</List.Item>)}</List></Alert>}
          <Summary rows={listLive(rows)} />
          <DataTable
            label={shell.pages.cluster}
            rows={rows}
            columns={columns}
            rowId={(it) => it.id}
            address={{ sort: search.sort, columns: search.columns }}
            onAddress={change}
            onOpen={(it) => change({ node: it.id })}
            empty={<Empty title={texts.empty} command={texts.command}>{texts.emptyHelp}</Empty>}
          />
          {cluster.data === undefined ? null : <Load cluster={cluster.data} />}
          <Health />
        </Stack>
      )}
      <JsonDrawer title={search.node ?? ""} value={shown === undefined ? undefined : { ...shown.node, ...shown.worker }} onClose={() => change({ node: undefined })} />
    </Page>
  );
}
