/** Permission rules: rulesets, a bench to try calls, and a comparison over the calls of the past. */
import { Group, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { recordsQuery, type ConfigRecord } from "../../api/managed";
import { policy as texts } from "../../texts/policy";
import { shell } from "../../texts/shell";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { GatedButton } from "../../ui/GatedButton";
import { Page } from "../../ui/Page";
import { Age } from "../../ui/parts";
import { RecordEditor, type EditedRecord } from "../../ui/RecordEditor";
import { Empty, Failure, Loading } from "../../ui/states";
import { Tag } from "../../ui/Tag";
import { Bench } from "./Bench";
import { Compare } from "./Compare";
import { readRules } from "./rules";

const route = getRouteApi("/policy");
const NEW = "+";
const TEMPLATE = { rules: [{ tool: "delete_*", behavior: "ask" }], default_behavior: null };

const COLUMNS: readonly DataColumn<ConfigRecord>[] = [
  { id: "id", header: texts.columns.id, cell: (it) => <Link to="/policy" search={{ edit: it.id }}>{it.id}</Link>, sortValue: (it) => it.id },
  {
    id: "rules", header: texts.columns.rules, sortValue: (it) => readRules(it).length,
    cell: (it) => <Group gap={4}>{readRules(it).slice(0, 6).map((rule, index) => <Tag key={index}>{rule.behavior} {rule.tool}</Tag>)}{readRules(it).length > 6 ? <Text span size="xs" c="dimmed">+{readRules(it).length - 6}</Text> : null}</Group>,
  },
  { id: "fallback", header: texts.columns.fallback, cell: (it) => (typeof it.default_behavior === "string" ? it.default_behavior : <Text span size="sm" c="dimmed">{texts.inherit}</Text>) },
  { id: "updated", header: texts.columns.updated, cell: (it) => <Age at={it.updated_at} />, sortValue: (it) => it.updated_at ?? 0 },
];

function Rulesets() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const records = useQuery(recordsQuery("rulesets"));
  const edited = useMemo((): EditedRecord | null => {
    if (search.edit === undefined) return null;
    const record = search.edit === NEW ? null : records.data?.find((it) => it.id === search.edit);
    return record === undefined ? null : { namespace: "rulesets", what: texts.what, record, template: TEMPLATE };
  }, [search.edit, records.data]);
  if (records.isError) return <Failure error={records.error} onRetry={() => void records.refetch()} />;
  if (records.isPending) return <Loading />;
  const create = <GatedButton scope="config" variant="filled" onClick={() => change({ edit: NEW })}>{texts.create}</GatedButton>;
  return (
    <>
      <DataTable
        label={texts.tabs.rulesets}
        rows={records.data}
        columns={COLUMNS}
        rowId={(it) => it.id}
        address={{ sort: search.sort, columns: search.columns }}
        onAddress={change}
        onOpen={(it) => change({ edit: it.id })}
        toolbar={records.data.length === 0 ? undefined : create}
        empty={<Empty title={texts.empty} action={create} command={texts.command}>{texts.emptyHelp}</Empty>}
      />
      <RecordEditor edited={edited} onClose={() => change({ edit: undefined })} />
    </>
  );
}

export function PolicyPage() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const tab = search.tab === "bench" || search.tab === "compare" ? search.tab : "rulesets";
  return (
    <Page title={shell.pages.policy} description={texts.description}>
      <Tabs value={tab} keepMounted={false} onChange={(value) => change({ tab: value ?? undefined, sort: undefined, columns: undefined })}>
        <Tabs.List mb="md">{Object.entries(texts.tabs).map(([value, label]) => <Tabs.Tab key={value} value={value}>{label}</Tabs.Tab>)}</Tabs.List>
        <Tabs.Panel value="rulesets"><Rulesets /></Tabs.Panel>
        <Tabs.Panel value="bench"><Bench /></Tabs.Panel>
        <Tabs.Panel value="compare"><Compare /></Tabs.Panel>
      </Tabs>
    </Page>
  );
}
