/** Models, providers and pools: what they are, how they fare, and how they are changed. */
import { Group, Tabs, Text } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { useMay } from "../../api/caller";
import { api, need } from "../../api/client";
import { capabilitiesQuery, recordsQuery } from "../../api/config";
import { models as texts } from "../../texts/models";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { Filters } from "../../ui/Filters";
import { formatCount, formatDuration, formatPercent, formatSpent, formatTokens } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { Page } from "../../ui/Page";
import { Age, Status } from "../../ui/parts";
import type { JsonObject } from "../../ui/schema/model";
import { Empty, Failure, Loading, NeedsScope } from "../../ui/states";
import { Tag } from "../../ui/Tag";
import { UPDATED_COLUMN } from "../records/parts";
import { NEW, RecordDrawer, type RecordForm } from "../records/RecordDrawer";
import { RecordList } from "../records/RecordList";
import { useRecords, type RecordRow } from "../records/useRecords";
import { BreakerMenu, TestButtons } from "./actions";
import { describePrice, mergeModels, readMembers, type ModelRow } from "./merge";

const route = getRouteApi("/models");
const TABS = ["models", "providers", "pools"] as const;
type TabName = (typeof TABS)[number];

const TEMPLATES: Record<TabName, JsonObject> = {
  models: { provider_id: "openai", upstream_model: "", input_token_price_per_million_usd: null, output_token_price_per_million_usd: null },
  providers: { adapter: "openai", base_url: null, api_key: { $secret: "env:OPENAI_API_KEY" } },
  pools: { members: [{ model_id: "" }], routing: "sticky" },
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
  { id: "cost", header: texts.columns.cost, cell: (it) => formatSpent(it.health?.cost_nanos ?? 0, (it.health?.input_tokens ?? 0) + (it.health?.output_tokens ?? 0)) ?? ui.none, sortValue: (it) => it.health?.cost_nanos ?? 0, isRight: true },
  { id: "price", header: texts.columns.price, cell: (it) => show(describePrice(it.record)) },
  { id: "window", header: texts.columns.window, cell: (it) => (typeof it.record?.context_window === "number" ? formatTokens(it.record.context_window) : show(null)), isRight: true, isHiddenAtFirst: true },
  { id: "retry", header: texts.columns.retry, cell: (it) => <Age at={it.health?.retry_at} />, sortValue: (it) => it.health?.retry_at ?? null, isHiddenAtFirst: true },
  { id: "error", header: texts.columns.error, cell: (it) => <span title={it.health?.error ?? undefined}>{show(it.health?.error)}</span>, isHiddenAtFirst: true },
  { id: "action", header: texts.columns.action, cell: (it) => (it.health === null ? null : <BreakerMenu modelId={it.id} />), isRight: true },
];

const PROVIDER_COLUMNS: readonly DataColumn<RecordRow>[] = [
  { id: "adapter", header: texts.columns.adapter, cell: ({ record }) => show(record.adapter), sortValue: ({ record }) => String(record.adapter) },
  { id: "url", header: texts.columns.url, cell: ({ record }) => show(record.base_url ?? texts.vendor) },
  { id: "key", header: texts.columns.key, cell: ({ record }) => (record.has_api_key === true ? <Text span ff="monospace" size="xs">{String(record.api_key_ref ?? "")}</Text> : texts.noKey) },
  { id: "timeout", header: texts.columns.timeout, cell: ({ record }) => (typeof record.timeout_secs === "number" ? formatDuration(record.timeout_secs * 1_000) : show(null)), isRight: true, isHiddenAtFirst: true },
  UPDATED_COLUMN,
  { id: "action", header: texts.columns.action, cell: (it) => <TestButtons providerId={it.id} />, isRight: true },
];

const POOL_COLUMNS: readonly DataColumn<RecordRow>[] = [
  { id: "members", header: texts.columns.members, cell: ({ record }) => <Group gap={4}>{readMembers(record).map((one) => <Tag key={one.model_id} color="gray">{one.model_id}{one.failover_only === true ? ` · ${texts.failover}` : ""}</Tag>)}</Group> },
  { id: "routing", header: texts.columns.routing, cell: ({ record }) => show(record.routing), sortValue: ({ record }) => String(record.routing) },
  { id: "switches", header: texts.columns.switches, cell: ({ record }) => show(record.max_switches), isRight: true },
  UPDATED_COLUMN,
];

/** What the forms of a kind of record begin with and offer. */
function useForms(): Record<TabName, RecordForm> {
  const may = useMay();
  const enabled = may("config");
  const { data: capabilities } = useQuery({ ...capabilitiesQuery, enabled });
  return useMemo(() => ({
    models: { template: TEMPLATES.models, first: ["provider_id", "upstream_model"], suggestions: { provider_id: (capabilities?.providers ?? []).map((it) => it.id) } },
    providers: { template: TEMPLATES.providers, first: ["adapter", "base_url", "api_key"], suggestions: { adapter: capabilities?.supported_adapters ?? [] } },
    pools: { template: TEMPLATES.pools, first: ["members", "routing"], suggestions: { model_id: (capabilities?.models ?? []).map((it) => String(it.id)) } },
  }), [capabilities]);
}

function ModelsTab({ form }: { form: RecordForm }) {
  const search = route.useSearch();
  const change = useChangeSearch();
  const may = useMay();
  const health = useQuery({ queryKey: ["model", "health"], queryFn: async ({ signal }) => (await need(api.GET("/v1/system/models", { signal }))).items });
  const records = useQuery({ ...recordsQuery("models"), enabled: may("config") });
  const rows = useMemo(() => mergeModels(health.data ?? [], records.data ?? []).filter((it) => it.id.includes(search.q ?? "")), [health.data, records.data, search.q]);
  const create = <GatedButton scope="config" variant="filled" leftSection={<IconPlus size={14} />} onClick={() => change({ edit: NEW })}>{texts.lists.models.add}</GatedButton>;
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
        toolbar={<><Filters values={{ q: search.q }} onChange={change} text={{ name: "q", placeholder: texts.lists.models.search }} />{create}</>}
        empty={<Empty title={texts.lists.models.empty} action={create} command={texts.lists.models.command}>{texts.lists.models.emptyHelp}</Empty>}
      />
      <Text size="xs" c="dimmed" mt="xs">{texts.statsHelp}</Text>
      {may("config") ? <RecordDrawer {...form} namespace="models" name={texts.lists.models.one} id={search.edit} onClose={() => change({ edit: undefined })} /> : null}
    </>
  );
}

function RecordsTab({ tab, form }: { tab: "providers" | "pools"; form: RecordForm }) {
  const namespace = tab === "providers" ? "providers" : "model-pools";
  const { list, rows } = useRecords(namespace);
  return <RecordList label={texts.tabs[tab]} namespace={namespace} texts={texts.lists[tab]} search={route.useSearch()} list={list} rows={rows} columns={tab === "providers" ? PROVIDER_COLUMNS : POOL_COLUMNS} form={form} />;
}

export function ModelsPage() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const tab = TABS.find((it) => it === search.tab) ?? "models";
  const forms = useForms();
  return (
    <Page title={shell.pages.models} description={texts.description}>
      <Tabs value={tab} keepMounted={false} onChange={(value) => change({ tab: value ?? undefined, sort: undefined, columns: undefined, q: undefined, edit: undefined })}>
        <Tabs.List mb="md">{Object.entries(texts.tabs).map(([value, label]) => <Tabs.Tab key={value} value={value}>{label}</Tabs.Tab>)}</Tabs.List>
        <Tabs.Panel value="models"><ModelsTab form={forms.models} /></Tabs.Panel>
        <Tabs.Panel value="providers"><NeedsScope scope="config"><RecordsTab tab="providers" form={forms.providers} /></NeedsScope></Tabs.Panel>
        <Tabs.Panel value="pools"><NeedsScope scope="config"><RecordsTab tab="pools" form={forms.pools} /></NeedsScope></Tabs.Panel>
      </Tabs>
    </Page>
  );
}
