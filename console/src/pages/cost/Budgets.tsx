/** Budgets: limits, what a tenant has used of them, and what calls in flight hold. */
import { Progress, Table, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";

import { useMay } from "../../api/caller";
import { api, need, type Schemas } from "../../api/client";
import { recordsQuery } from "../../api/managed";
import { callerQuery } from "../../api/queries";
import { cost as texts } from "../../texts/cost";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { formatCost, formatDuration, formatPercent, formatTokens } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { Panel } from "../../ui/Panel";
import { Status } from "../../ui/parts";
import { RecordEditor, type EditedRecord } from "../../ui/RecordEditor";
import { Failure, Loading } from "../../ui/states";

const route = getRouteApi("/cost");
const NEW = "+";
const TEMPLATE = { scope: "runtime", tokens: 100_000, soft: false };
type Budget = Schemas["BudgetStatus"];
type Limit = { name: string; limit: number; format: (value: number) => string; read: (amount: Schemas["Amount"]) => number };

function listLimits({ budget }: Budget): Limit[] {
  const limits: (Limit | null)[] = [
    typeof budget.cost_usd === "number" ? { name: "cost", limit: budget.cost_usd * 1e9, format: formatCost, read: (it) => it.nanos ?? 0 } : null,
    typeof budget.tokens === "number" ? { name: "tokens", limit: budget.tokens, format: (it) => `${formatTokens(it)} tokens`, read: (it) => it.tokens ?? 0 } : null,
    typeof budget.time_ms === "number" ? { name: "time", limit: budget.time_ms, format: formatDuration, read: (it) => it.ms ?? 0 } : null,
  ];
  return limits.filter((it) => it !== null);
}

function BudgetRow({ it }: { it: Budget }) {
  const limits = listLimits(it);
  const whose = [texts.scopes[it.budget.scope ?? "run"], it.agent_id, it.tenant_id].filter((name) => typeof name === "string").join(" · ");
  return (
    <Table.Tr>
      <Table.Th scope="row" fw={500}>{whose}</Table.Th>
      <Table.Td>{limits.map((limit) => limit.format(limit.limit)).join(", ")}</Table.Td>
      <Table.Td>
        {it.used === null || it.used === undefined ? <Text span c="dimmed" size="sm">{ui.none}</Text> : limits.map((limit) => {
          const part = limit.read(it.used as Schemas["Amount"]) / Math.max(1, limit.limit);
          return (
            <div key={limit.name}>
              <Text size="sm">{limit.format(limit.read(it.used as Schemas["Amount"]))} ({formatPercent(part)})</Text>
              <Progress value={Math.min(100, part * 100)} color={part >= 1 ? "red" : part >= 0.8 ? "orange" : "teal"} size="sm" aria-label={`${whose} ${limit.name}`} />
            </div>
          );
        })}
        {typeof it.limit_reached === "string" ? <Status value="error" label={`${texts.reached}: ${it.limit_reached}`} /> : null}
      </Table.Td>
      <Table.Td>{it.held === null || it.held === undefined ? <Text span c="dimmed" size="sm">{ui.none}</Text> : limits.map((limit) => limit.format(limit.read(it.held as Schemas["Amount"]))).join(", ")}</Table.Td>
      <Table.Td>{it.budget.soft === true ? texts.soft : texts.hard}</Table.Td>
    </Table.Tr>
  );
}

export function Budgets() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const may = useMay();
  const { data: caller } = useQuery(callerQuery);
  const isAll = caller !== undefined && (caller.tenant_id ?? null) === null;
  const changeLater = useDebouncedCallback((value: string) => change({ tenant: value.trim() || undefined }), 400);
  const query = useQuery({ queryKey: ["usage", "budgets", search.tenant], queryFn: ({ signal }) => need(api.GET("/v1/budgets", { signal, params: { query: { tenant_id: search.tenant } } })) });
  const records = useQuery({ ...recordsQuery("budgets"), enabled: may("config") && search.edit !== undefined });
  const edited = useMemo((): EditedRecord | null => {
    if (search.edit === undefined) return null;
    const record = search.edit === NEW ? null : records.data?.find((it) => it.id === search.edit);
    return record === undefined ? null : { namespace: "budgets", what: texts.what, record, template: TEMPLATE };
  }, [search.edit, records.data]);
  const actions = (
    <>
      {isAll ? <TextInput aria-label={texts.tenant} placeholder={texts.tenant} defaultValue={search.tenant} w={140} onChange={(event) => changeLater(event.currentTarget.value)} /> : null}
      <GatedButton scope="config" onClick={() => change({ edit: NEW })}>{texts.newBudget}</GatedButton>
    </>
  );
  const items = query.data?.items ?? [];
  return (
    <Panel title={texts.budgets} description={texts.budgetsHelp} actions={actions}>
      {query.isError ? <Failure error={query.error} onRetry={() => void query.refetch()} /> : query.isPending ? <Loading rows={2} /> : items.length === 0 ? <Text size="sm" c="dimmed">{texts.noBudgets}</Text> : (
        <div tabIndex={0} role="region" aria-label={texts.rowsOf(texts.budgets)} style={{ overflow: "auto" }}>
          <Table verticalSpacing={4}>
            <Table.Thead><Table.Tr>{Object.values(texts.budgetColumns).map((it) => <Table.Th key={it}>{it}</Table.Th>)}</Table.Tr></Table.Thead>
            <Table.Tbody>{items.map((it, index) => <BudgetRow key={index} it={it} />)}</Table.Tbody>
          </Table>
        </div>
      )}
      <RecordEditor edited={edited} onClose={() => change({ edit: undefined })} />
    </Panel>
  );
}
