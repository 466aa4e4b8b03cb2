/** A bench for rules: calls that are tried on an agent, with the rule that decides each. */
import { Alert, Button, Code, Group, Select, Stack, Table, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";

import { api, need, type Schemas } from "../../api/client";
import { ApiError } from "../../api/errors";
import { agentsQuery } from "../../api/queries";
import { policy as texts } from "../../texts/policy";
import { useChangeSearch } from "../../ui/address";
import { Panel } from "../../ui/Panel";
import { Failure, Loading } from "../../ui/states";
import { Decision } from "./Decision";
import { readArguments } from "./rules";

const route = getRouteApi("/policy");
const TYPING_MS = 300;
type Tried = { tool: string; text: string };

export function AgentSelect({ value, onChange }: { value: string | undefined; onChange: (agent: string | undefined) => void }) {
  const { data: agents = [] } = useQuery(agentsQuery);
  return <Select label={texts.agent} data={agents.map((it) => it.id)} value={value ?? null} searchable clearable w={240} onChange={(agent) => onChange(agent ?? undefined)} />;
}

function Calls({ calls, onChange }: { calls: readonly Tried[]; onChange: (calls: Tried[]) => void }) {
  const set = (at: number, part: Partial<Tried>) => onChange(calls.map((it, index) => (index === at ? { ...it, ...part } : it)));
  return (
    <Stack gap="xs">
      {calls.map((it, at) => (
        <Group key={at} gap="xs" align="flex-end">
          <TextInput label={texts.tool} value={it.tool} w={200} onChange={(event) => set(at, { tool: event.currentTarget.value.trim() })} />
          <TextInput label={texts.arguments} value={it.text} flex={1} miw={200} ff="monospace" error={readArguments(it.text) === undefined ? texts.badArguments : undefined} placeholder="{}" onChange={(event) => set(at, { text: event.currentTarget.value })} />
          <Button variant="subtle" aria-label={texts.remove(it.tool)} disabled={calls.length === 1} onClick={() => onChange(calls.filter((_, index) => index !== at))}><IconTrash size={14} /></Button>
        </Group>
      ))}
      <Group><Button leftSection={<IconPlus size={13} />} onClick={() => onChange([...calls, { tool: "", text: "" }])}>{texts.addCall}</Button></Group>
    </Stack>
  );
}

function Results({ preview }: { preview: Schemas["PolicyPreview"] }) {
  return (
    <Stack gap="md" aria-live="polite">
      {preview.calls.length === 0 ? null : (
        <Table>
          <Table.Thead><Table.Tr><Table.Th>{texts.callColumns.tool}</Table.Th><Table.Th>{texts.callColumns.decision}</Table.Th><Table.Th>{texts.callColumns.rule}</Table.Th></Table.Tr></Table.Thead>
          <Table.Tbody>{preview.calls.map((it, index) => <Table.Tr key={index}><Table.Td><Code>{it.tool}</Code></Table.Td><Table.Td><Decision behavior={it.behavior} /></Table.Td><Table.Td>{it.rule === "default" ? texts.defaultRule : <Code>{it.rule}</Code>}</Table.Td></Table.Tr>)}</Table.Tbody>
        </Table>
      )}
      <Text size="sm"><Text span fw={550}>{texts.offered}: </Text>{preview.offered.join(", ")}</Text>
      {preview.hidden.length === 0 ? null : <Text size="sm"><Text span fw={550}>{texts.hidden}: </Text>{preview.hidden.join(", ")}</Text>}
    </Stack>
  );
}

export function Bench() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const [calls, setCalls] = useState<Tried[]>([{ tool: search.tool ?? "", text: search.arguments ?? "" }]);
  const [settled] = useDebouncedValue(calls, TYPING_MS);
  const tried = settled.flatMap((it) => {
    const given = readArguments(it.text);
    return it.tool === "" || given === undefined ? [] : [{ tool: it.tool, arguments: given.value }];
  });
  const query = useQuery({
    queryKey: ["config", "bench", search.agent, tried],
    queryFn: ({ signal }) => need(api.POST("/v1/policy/preview", { body: { agent: search.agent ?? "", calls: tried, publication: null }, signal })),
    enabled: search.agent !== undefined,
    refetchInterval: false,
  });
  const edit = (next: Tried[]) => {
    setCalls(next);
    change({ tool: next[0]?.tool || undefined, arguments: next[0]?.text || undefined });
  };
  const isWithoutRules = query.error instanceof ApiError && query.error.status === 400;
  return (
    <Panel title={texts.tabs.bench} description={texts.benchHelp}>
      <Stack gap="md">
        <AgentSelect value={search.agent} onChange={(agent) => change({ agent })} />
        <Calls calls={calls} onChange={edit} />
        {search.agent === undefined ? null : isWithoutRules ? <Alert color="yellow" title={texts.noPlugin}>{texts.noPluginHelp}</Alert>
          : query.isError ? <Failure error={query.error} onRetry={() => void query.refetch()} /> : query.data === undefined ? <Loading rows={2} /> : <Results preview={query.data} />}
      </Stack>
    </Panel>
  );
}
