/** The most expensive runs of the period: among the latest that the server looks at, which the page says. */
import { Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api, need } from "../../api/client";
import { cost as texts } from "../../texts/cost";
import { formatCost, formatCount, formatTokens } from "../../ui/format";
import { Panel } from "../../ui/Panel";
import { Age, ShortId } from "../../ui/parts";
import { Failure } from "../../ui/states";

const SHOWN = 10;

export function CostlyRuns({ from }: { from: number }) {
  const { data, error, refetch } = useQuery({ queryKey: ["usage", "runs", from], queryFn: ({ signal }) => need(api.GET("/v1/usage/runs", { signal, params: { query: { from, limit: SHOWN } } })) });
  if (error !== null && data === undefined) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined || data.items.length === 0) return null;
  const named = texts.runColumns;
  return (
    <Panel title={texts.costly} description={data.is_complete ? texts.costlyOfAll(formatCount(data.looked_at)) : texts.costlyOfLatest(formatCount(data.looked_at))} isFlush>
      <div tabIndex={0} role="region" aria-label={texts.rowsOf(texts.costly)} style={{ overflow: "auto" }}>
        <Table verticalSpacing={4} horizontalSpacing={12}>
          <Table.Thead><Table.Tr><Table.Th>{named.run}</Table.Th><Table.Th>{named.agent}</Table.Th><Table.Th>{named.at}</Table.Th><Table.Th ta="right">{named.cost}</Table.Th><Table.Th ta="right">{named.tokens}</Table.Th><Table.Th ta="right">{named.steps}</Table.Th></Table.Tr></Table.Thead>
          <Table.Tbody>
            {data.items.map((it) => (
              <Table.Tr key={it.run_id}>
                <Table.Td><Link to="/runs/$runId" params={{ runId: it.run_id }} search={{ tab: "cost" }}><ShortId id={it.run_id} /></Link></Table.Td>
                <Table.Td>{it.agent_id}</Table.Td>
                <Table.Td><Age at={it.created_at} /></Table.Td>
                <Table.Td ta="right">{it.cost_nanos === null ? <Text span size="sm" c="dimmed">{texts.noPrice}</Text> : formatCost(it.cost_nanos)}</Table.Td>
                <Table.Td ta="right">{formatTokens(it.input_tokens + it.output_tokens)}</Table.Td>
                <Table.Td ta="right">{formatCount(it.steps)}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
    </Panel>
  );
}
