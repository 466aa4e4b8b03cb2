/** Tabs that look back: versions of the agent with their fields, and its last day. */
import { Button, Group, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { api, need, type Schemas } from "../../api/client";
import { useMay } from "../../api/caller";
import { historyQuery, restoreRecord } from "../../api/config";
import { refreshKinds } from "../../api/queries";
import { agent as texts } from "../../texts/agent";
import { ui } from "../../texts/ui";
import { compareFields } from "../../ui/compare";
import { useConfirm } from "../../ui/confirm";
import { FieldDiff } from "../../ui/FieldDiff";
import { formatCount, formatDuration, formatSpent, formatTokens } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { Age } from "../../ui/parts";
import { Failure, Loading } from "../../ui/states";
import classes from "./AgentPage.module.css";

export function HistoryTab({ agentId, onRestored }: { agentId: string; onRestored: () => void }) {
  const may = useMay();
  const history = useQuery({ ...historyQuery("agents", agentId), enabled: may("admin") });
  const confirm = useConfirm();
  const [shown, setShown] = useState<string | null>(null);
  if (!may("admin")) return <Text size="sm" c="dimmed">{texts.history.needsAdmin}</Text>;
  if (history.isError) return <Failure error={history.error} />;
  if (history.data === undefined) return <Loading rows={4} />;
  const { revision, items } = history.data;
  if (items.length === 0) return <Text size="sm" c="dimmed">{texts.history.empty}</Text>;
  const restore = async (item: Schemas["AuditItem"]) => {
    if (!(await confirm({ title: texts.history.restoreTitle(String(item.publication ?? "")), body: texts.history.restoreBody, confirm: texts.history.restore.replace("…", "") }))) return;
    try {
      await restoreRecord("agents", agentId, item.id, revision);
      noteDone(texts.history.restored);
      await refreshKinds("config", "agent", "audit");
      onRestored();
    } catch (error) {
      noteError(error);
      await refreshKinds("audit");
    }
  };
  return (
    <Stack gap={0}>
      {items.map((it, index) => (
        <div key={it.id} className={classes.version}>
          <Group justify="space-between" gap="xs">
            <Group gap="sm">
              <Text size="sm" fw={500}>{it.action.replaceAll("_", " ")}</Text>
              <Text size="sm" c="dimmed">{it.actor}</Text>
              <Age at={Date.parse(it.ts)} />
              {it.publication == null ? null : <Text size="sm" c="dimmed">{texts.history.publication} {it.publication}</Text>}
              {it.message == null || it.message === "" ? null : <Text size="sm">{it.message}</Text>}
            </Group>
            <Group gap="xs">
              <Button variant="subtle" aria-expanded={shown === it.id} onClick={() => setShown(shown === it.id ? null : it.id)}>{texts.history.show}</Button>
              {index === 0 || it.after === undefined ? null : <GatedButton scope="publish" onClick={() => void restore(it)}>{texts.history.restore}</GatedButton>}
            </Group>
          </Group>
          {shown === it.id ? <ChangedFields before={it.before} after={it.after} /> : null}
        </div>
      ))}
    </Stack>
  );
}

function ChangedFields({ before, after }: { before: unknown; after: unknown }) {
  const fields = useMemo(() => compareFields(before, after), [before, after]);
  if (fields.length === 0) return <Text size="xs" c="dimmed">{texts.history.noChange}</Text>;
  return <>{fields.map((it) => <FieldDiff key={it.path} field={it} />)}</>;
}

export function UsageTab({ agentId }: { agentId: string }) {
  const stats = useQuery({
    queryKey: ["agent", "stats", agentId],
    queryFn: ({ signal }) => need(api.GET("/v1/agents/{agent_id}/runtime-stats", { params: { path: { agent_id: agentId }, query: { scope: "all" } }, signal })),
    retry: false,
  });
  if (stats.isError) return <Text size="sm" c="dimmed">{texts.usage.none}</Text>;
  if (stats.data === undefined) return <Loading rows={3} />;
  const it = stats.data;
  const figures: [string, string][] = [
    [texts.usage.runs, formatCount(it.run_count)], [texts.usage.errors, formatCount(it.run_error_count + it.error_count)], [texts.usage.inferences, formatCount(it.inference_count)],
    [texts.usage.tokens, `${formatTokens(it.input_tokens)} / ${formatTokens(it.output_tokens)}`], [texts.usage.cost, formatSpent(it.cost_nanos, it.input_tokens + it.output_tokens) ?? ui.none],
    [texts.usage.p50, it.inference_count === 0 ? ui.none : formatDuration(it.p50_inference_duration_ms)], [texts.usage.p95, it.inference_count === 0 ? ui.none : formatDuration(it.p95_inference_duration_ms)], [texts.usage.suspensions, formatCount(it.suspensions)],
  ];
  return (
    <Stack gap="md">
      <Group justify="space-between"><Text size="sm" c="dimmed">{texts.usage.window}</Text><Link to="/runs" search={{ agent: agentId }}>{texts.usage.seeRuns}</Link></Group>
      <SimpleGrid cols={{ base: 2, sm: 4 }} spacing="md">
        {figures.map(([name, value]) => <div key={name}><Text size="xs" c="dimmed">{name}</Text><Text size="lg" fw={600}>{value}</Text></div>)}
      </SimpleGrid>
      {it.tool_calls_by_tool.length === 0 ? null : (
        <div className={classes.scroll} tabIndex={0} role="region" aria-label={texts.usage.tools}>
          <Table fz="sm">
            <Table.Thead><Table.Tr><Table.Th>{texts.usage.tool}</Table.Th><Table.Th ta="right">{texts.usage.calls}</Table.Th><Table.Th ta="right">{texts.usage.failures}</Table.Th><Table.Th ta="right">{texts.usage.toolP95}</Table.Th></Table.Tr></Table.Thead>
            <Table.Tbody>
              {it.tool_calls_by_tool.map((row) => <Table.Tr key={row.tool}><Table.Td>{row.tool || ui.none}</Table.Td><Table.Td ta="right">{formatCount(row.call_count)}</Table.Td><Table.Td ta="right">{formatCount(row.failure_count)}</Table.Td><Table.Td ta="right">{formatDuration(row.p95_duration_ms)}</Table.Td></Table.Tr>)}
            </Table.Tbody>
          </Table>
        </div>
      )}
    </Stack>
  );
}
