/** Permission rules: rulesets, a bench to try calls, and a comparison over the calls of the past. */
import { Group, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";

import { capabilitiesQuery } from "../../api/config";
import { policy as texts } from "../../texts/policy";
import { shell } from "../../texts/shell";
import { useChangeSearch } from "../../ui/address";
import type { DataColumn } from "../../ui/DataTable";
import { Page } from "../../ui/Page";
import { Tag } from "../../ui/Tag";
import { UPDATED_COLUMN } from "../records/parts";
import { RecordList } from "../records/RecordList";
import { useRecords, type RecordRow } from "../records/useRecords";
import { Bench } from "./Bench";
import { Compare } from "./Compare";
import { readRules } from "./rules";

const route = getRouteApi("/policy");
const COLUMNS: readonly DataColumn<RecordRow>[] = [
  {
    id: "rules", header: texts.columns.rules, sortValue: (it) => readRules(it.record).length,
    cell: ({ record }) => <Group gap={4}>{readRules(record).slice(0, 6).map((rule, index) => <Tag key={index}>{rule.behavior} {rule.tool}</Tag>)}{readRules(record).length > 6 ? <Text span size="xs" c="dimmed">+{readRules(record).length - 6}</Text> : null}</Group>,
  },
  { id: "fallback", header: texts.columns.fallback, cell: ({ record }) => (typeof record.default_behavior === "string" ? record.default_behavior : <Text span size="sm" c="dimmed">{texts.inherit}</Text>) },
  UPDATED_COLUMN,
];
const TEMPLATE = { rules: [{ tool: "delete_*", behavior: "ask" }], default_behavior: null };

function Rulesets() {
  const { list, rows } = useRecords("rulesets");
  const { data: capabilities } = useQuery(capabilitiesQuery);
  const form = useMemo(() => ({ template: TEMPLATE, suggestions: { tool: (capabilities?.tools ?? []).map((it) => it.id) } }), [capabilities]);
  return <RecordList label={texts.tabs.rulesets} namespace="rulesets" texts={texts} search={route.useSearch()} list={list} rows={rows} columns={COLUMNS} form={form} />;
}

export function PolicyPage() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const tab = search.tab === "bench" || search.tab === "compare" ? search.tab : "rulesets";
  return (
    <Page title={shell.pages.policy} description={texts.description}>
      <Tabs value={tab} keepMounted={false} onChange={(value) => change({ tab: value ?? undefined, sort: undefined, columns: undefined, q: undefined, edit: undefined })}>
        <Tabs.List mb="md">{Object.entries(texts.tabs).map(([value, label]) => <Tabs.Tab key={value} value={value}>{label}</Tabs.Tab>)}</Tabs.List>
        <Tabs.Panel value="rulesets"><Rulesets /></Tabs.Panel>
        <Tabs.Panel value="bench"><Bench /></Tabs.Panel>
        <Tabs.Panel value="compare"><Compare /></Tabs.Panel>
      </Tabs>
    </Page>
  );
}
