/** Budgets: limits, what a tenant has used of them, and what calls in flight hold. */
import { Progress, Table, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { useMay } from "../../api/caller";
import { api, need, type Schemas } from "../../api/client";
import { recordsQuery, type ConfigRecord } from "../../api/config";
import { callerQuery } from "../../api/queries";
import { cost as texts } from "../../texts/cost";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { formatCost, formatDuration, formatPercent, formatTokens } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { Panel } from "../../ui/Panel";
import { Status } from "../../ui/parts";
import { Failure, Loading } from "../../ui/states";
import { NEW, RecordDrawer } from "../records/RecordDrawer";

const route = getRouteApi("/cost");
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

/** The record that a budget of the runtime comes from, if it is not one of the code. */
export function findRecord({ budget, agent_id }: Budget, records: readonly ConfigRecord[]): ConfigRecord | undefined {
  if (agent_id !== null && agent_id !== undefined) return undefined;
  const isSame = (a: unknown, b: unknown) => (a ?? null) === (b ?? null);
  return records.find((it) => (it.scope === "tenant") === (budget.scope === "tenant") && isSame(it.tokens, budget.tokens) && isSame(it.cost_usd, budget.cost_usd) && isSame(it.time_ms, budget.time_ms) && (it.soft === true) === (budget.soft === true));
}

/** Leads to where a budget is edited: the agent that has it, or its record. */
function EditLink({ it, record }: { it: Budget; record: ConfigRecord | undefined }) {
  if (typeof it.agent_id === "string") return <Link to="/agents/$agentId" params={{ agentId: it.agent_id }} search={{ tab: "budgets" }}>{texts.editBudget}</Link>;
  if (record !== undefined) return <Link to="/cost" search={(now) => ({ ...now, edit: record.id })}>{texts.editBudget}</Link>;
  return <Text span size="sm" c="dimmed" title={texts.ofCodeHelp}>{texts.ofCode}</Text>;
}

function BudgetRow({ it, record }: { it: Budget; record: ConfigRecord | undefined }) {
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
      <Table.Td><EditLink it={it} record={record} /></Table.Td>
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
  const actions = (
    <>
      {isAll ? <TextInput aria-label={texts.tenant} placeholder={texts.tenant} defaultValue={search.tenant} w={140} onChange={(event) => changeLater(event.currentTarget.value)} /> : null}
      <GatedButton scope="config" onClick={() => change({ edit: NEW })}>{texts.newBudget}</GatedButton>
    </>
  );
  const { data: records = [] } = useQuery({ ...recordsQuery("budgets"), enabled: may("config") });
  const items = query.data?.items ?? [];
  return (
    <Panel title={texts.budgets} description={texts.budgetsHelp} actions={actions}>
      {query.isError ? <Failure error={query.error} onRetry={() => void query.refetch()} /> : query.isPending ? <Loading rows={2} /> : items.length === 0 ? <Text size="sm" c="dimmed">{texts.noBudgets}</Text> : (
        <div tabIndex={0} role="region" aria-label={texts.rowsOf(texts.budgets)} style={{ overflow: "auto" }}>
          <Table verticalSpacing={4}>
            <Table.Thead><Table.Tr>{Object.values(texts.budgetColumns).map((it) => <Table.Th key={it}>{it}</Table.Th>)}</Table.Tr></Table.Thead>
            <Table.Tbody>{items.map((it, index) => <BudgetRow key={index} it={it} record={findRecord(it, records)} />)}</Table.Tbody>
          </Table>
        </div>
      )}
      {may("config") ? <RecordDrawer namespace="budgets" name={texts.what} id={search.edit} template={TEMPLATE} onClose={() => change({ edit: undefined })} /> : null}
    </Panel>
  );
}
