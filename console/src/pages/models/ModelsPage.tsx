/** Models, providers and pools: what they are, how they fare, and how they are changed. */
import { Group, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { useMay } from "../../api/caller";
import { api, need } from "../../api/client";
import { metaQuery, recordsQuery, type ConfigRecord } from "../../api/managed";
import { models as texts } from "../../texts/models";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { Filters } from "../../ui/Filters";
import { formatCost, formatCount, formatDuration, formatPercent, formatTokens } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { Page } from "../../ui/Page";
import { Age, Status } from "../../ui/parts";
import { RecordEditor, type EditedRecord } from "../../ui/RecordEditor";
import { Empty, Failure, Loading, NeedsScope } from "../../ui/states";
import { Tag } from "../../ui/Tag";
import { BreakerMenu, TestButtons } from "./actions";
import { describePrice, mergeModels, readMembers, type ModelRow } from "./merge";

const route = getRouteApi("/models");
const NEW = "+";
type Namespace = keyof typeof texts.what;
const NAMESPACES = { models: "models", providers: "providers", pools: "model-pools" } as const satisfies Record<string, Namespace>;
type TabName = keyof typeof NAMESPACES;

const TEMPLATES: Record<Namespace, Readonly<Record<string, unknown>>> = {
  models: { provider_id: "openai", upstream_model: "", input_token_price_per_million_usd: null, output_token_price_per_million_usd: null },
  providers: { adapter: "openai", base_url: null, api_key: { $secret: "env:OPENAI_API_KEY" } },
  "model-pools": { members: [{ model_id: "" }], routing: "sticky" },
};

function show(value: unknown) {
  return typeof value === "string" || typeof value === "number" ? value : <Text span c="dimmed" size="sm">{ui.none}</Text>;
}

const MODEL_COLUMNS: readonly DataColumn<ModelRow>[] = [
  { id: "model", header: texts.columns.model, cell: (it) => (it.record === null ? it.id : <Link to="/models" search={{ edit: it.id }}>{it.id}</Link>), sortValue: (it) => it.id },
  { id: "state", header: texts.columns.state, cell: (it) => (it.health === null ? show(null) : <Status value={it.health.state} />), sortValue: (it) => it.health?.state ?? "" },
  { id: "provider", header: texts.columns.provider, cell: (it) => show(it.record?.provider_id ?? (it.record === null ? texts.ofCode : null)), sortValue: (it) => String(it.record?.provider_id ?? "") },
  { id: "upstream", header: texts.columns.upstream, cell: (it) => show(it.record?.upstream_model), isHiddenAtFirst: true },
  { id: "calls", header: texts.columns.calls, cell: (it) => formatCount(it.health?.calls ?? 0), sortValue: (it) => it.health?.calls ?? 0, isRight: true },
  { id: "errors", header: texts.columns.errors, cell: (it) => (it.health === null || it.health.errors === 0 ? "0" : `${it.health.errors} (${formatPercent(it.health.errors / Math.max(1, it.health.calls))})`), sortValue: (it) => it.health?.errors ?? 0, isRight: true },
  { id: "p50", header: texts.columns.p50, cell: (it) => ((it.health?.calls ?? 0) === 0 ? ui.none : formatDuration(it.health?.p50_ms ?? 0)), sortValue: (it) => it.health?.p50_ms ?? 0, isRight: true },
  { id: "p95", header: texts.columns.p95, cell: (it) => ((it.health?.calls ?? 0) === 0 ? ui.none : formatDuration(it.health?.p95_ms ?? 0)), sortValue: (it) => it.health?.p95_ms ?? 0, isRight: true },
  { id: "tokens", header: texts.columns.tokens, cell: (it) => formatTokens((it.health?.input_tokens ?? 0) + (it.health?.output_tokens ?? 0)), sortValue: (it) => (it.health?.input_tokens ?? 0) + (it.health?.output_tokens ?? 0), isRight: true },
  { id: "cost", header: texts.columns.cost, cell: (it) => formatCost(it.health?.cost_nanos ?? 0), sortValue: (it) => it.health?.cost_nanos ?? 0, isRight: true },
  { id: "price", header: texts.columns.price, cell: (it) => show(describePrice(it.record)) },
  { id: "window", header: texts.columns.window, cell: (it) => (typeof it.record?.context_window === "number" ? formatTokens(it.record.context_window) : show(null)), isRight: true, isHiddenAtFirst: true },
  { id: "retry", header: texts.columns.retry, cell: (it) => <Age at={it.health?.retry_at} />, sortValue: (it) => it.health?.retry_at ?? null, isHiddenAtFirst: true },
  { id: "error", header: texts.columns.error, cell: (it) => <span title={it.health?.error ?? undefined}>{show(it.health?.error)}</span>, isHiddenAtFirst: true },
  { id: "action", header: texts.columns.action, cell: (it) => (it.health === null ? null : <BreakerMenu modelId={it.id} />), isRight: true },
];

const PROVIDER_COLUMNS: readonly DataColumn<ConfigRecord>[] = [
  { id: "id", header: texts.columns.provider, cell: (it) => <Link to="/models" search={{ tab: "providers", edit: it.id }}>{it.id}</Link>, sortValue: (it) => it.id },
  { id: "adapter", header: texts.columns.adapter, cell: (it) => show(it.adapter), sortValue: (it) => String(it.adapter) },
  { id: "url", header: texts.columns.url, cell: (it) => show(it.base_url ?? texts.vendor) },
  { id: "key", header: texts.columns.key, cell: (it) => (it.has_api_key === true ? <Text span ff="monospace" size="xs">{String(it.api_key_ref ?? "")}</Text> : texts.noKey) },
  { id: "timeout", header: texts.columns.timeout, cell: (it) => (typeof it.timeout_secs === "number" ? formatDuration(it.timeout_secs * 1_000) : show(null)), isRight: true, isHiddenAtFirst: true },
  { id: "updated", header: texts.columns.updated, cell: (it) => <Age at={it.updated_at} />, sortValue: (it) => it.updated_at ?? 0 },
  { id: "action", header: texts.columns.action, cell: (it) => <TestButtons providerId={it.id} />, isRight: true },
];

const POOL_COLUMNS: readonly DataColumn<ConfigRecord>[] = [
  { id: "id", header: texts.columns.pool, cell: (it) => <Link to="/models" search={{ tab: "pools", edit: it.id }}>{it.id}</Link>, sortValue: (it) => it.id },
  { id: "members", header: texts.columns.members, cell: (it) => <Group gap={4}>{readMembers(it).map((one) => <Tag key={one.model_id} color="gray">{one.model_id}{one.failover_only === true ? ` · ${texts.failover}` : ""}</Tag>)}</Group> },
  { id: "routing", header: texts.columns.routing, cell: (it) => show(it.routing), sortValue: (it) => String(it.routing) },
  { id: "switches", header: texts.columns.switches, cell: (it) => show(it.max_switches), isRight: true },
  { id: "updated", header: texts.columns.updated, cell: (it) => <Age at={it.updated_at} />, sortValue: (it) => it.updated_at ?? 0 },
];

function CreateButton({ tab }: { tab: TabName }) {
  const change = useChangeSearch();
  return <GatedButton scope="config" variant="filled" onClick={() => change({ edit: NEW })}>{texts.create(texts.what[NAMESPACES[tab]])}</GatedButton>;
}

function ModelsTab() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const may = useMay();
  const health = useQuery({ queryKey: ["model", "health"], queryFn: async ({ signal }) => (await need(api.GET("/v1/system/models", { signal }))).items });
  const records = useQuery({ ...recordsQuery("models"), enabled: may("config") });
  const rows = useMemo(() => mergeModels(health.data ?? [], records.data ?? []).filter((it) => it.id.includes(search.q ?? "")), [health.data, records.data, search.q]);
  if (health.isError) return <Failure error={health.error} onRetry={() => void health.refetch()} />;
  if (health.isPending) return <Loading />;
  return (
    <>
      <DataTable
        label={texts.tabs.models}
        rows={rows}
        columns={MODEL_COLUMNS}
        rowId={(it) => it.id}
        address={{ sort: search.sort, columns: search.columns }}
        onAddress={change}
        onOpen={(it) => { if (it.record !== null) change({ edit: it.id }); }}
        toolbar={<><Filters values={{ q: search.q }} onChange={change} text={{ name: "q", placeholder: texts.search }} /><CreateButton tab="models" /></>}
        empty={<Empty title={texts.emptyModels} action={<CreateButton tab="models" />} command={texts.commands.models}>{texts.emptyModelsHelp}</Empty>}
      />
      <Text size="xs" c="dimmed" mt="xs">{texts.statsHelp}</Text>
    </>
  );
}

function RecordsTab({ tab }: { tab: "providers" | "pools" }) {
  const search = route.useSearch();
  const change = useChangeSearch();
  const records = useQuery(recordsQuery(NAMESPACES[tab]));
  if (records.isError) return <Failure error={records.error} onRetry={() => void records.refetch()} />;
  if (records.isPending) return <Loading />;
  const [title, help] = tab === "providers" ? [texts.emptyProviders, texts.emptyProvidersHelp] : [texts.emptyPools, texts.emptyPoolsHelp];
  return (
    <DataTable
      label={texts.tabs[tab]}
      rows={records.data}
      columns={tab === "providers" ? PROVIDER_COLUMNS : POOL_COLUMNS}
      rowId={(it) => it.id}
      address={{ sort: search.sort, columns: search.columns }}
      onAddress={change}
      onOpen={(it) => change({ edit: it.id })}
      toolbar={records.data.length === 0 ? undefined : <CreateButton tab={tab} />}
      empty={<Empty title={title} action={<CreateButton tab={tab} />} command={texts.commands[tab]}>{help}</Empty>}
    />
  );
}

function useEdited(tab: TabName, id: string | undefined): EditedRecord | null {
  const may = useMay();
  const namespace = NAMESPACES[tab];
  const isAsked = id !== undefined && may("config");
  const records = useQuery({ ...recordsQuery(namespace), enabled: isAsked });
  useQuery({ ...metaQuery(namespace), enabled: isAsked });
  return useMemo(() => {
    if (!isAsked) return null;
    const record = id === NEW ? null : records.data?.find((it) => it.id === id);
    return record === undefined ? null : { namespace, what: texts.what[namespace], record, template: TEMPLATES[namespace] };
  }, [isAsked, id, namespace, records.data]);
}

export function ModelsPage() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const tab = (Object.keys(NAMESPACES) as TabName[]).find((it) => it === search.tab) ?? "models";
  const edited = useEdited(tab, search.edit);
  return (
    <Page title={shell.pages.models} description={texts.description}>
      <Tabs value={tab} keepMounted={false} onChange={(value) => change({ tab: value ?? undefined, sort: undefined, columns: undefined, q: undefined })}>
        <Tabs.List mb="md">{Object.entries(texts.tabs).map(([value, label]) => <Tabs.Tab key={value} value={value}>{label}</Tabs.Tab>)}</Tabs.List>
        <Tabs.Panel value="models"><ModelsTab /></Tabs.Panel>
        <Tabs.Panel value="providers"><NeedsScope scope="config"><RecordsTab tab="providers" /></NeedsScope></Tabs.Panel>
        <Tabs.Panel value="pools"><NeedsScope scope="config"><RecordsTab tab="pools" /></NeedsScope></Tabs.Panel>
      </Tabs>
      <RecordEditor edited={edited} onClose={() => change({ edit: undefined })} />
    </Page>
  );
}
