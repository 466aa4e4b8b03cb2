/** What another set of rules would have done to the calls that are stored. */
import { Alert, Button, Code, Group, Select, Stack, Table, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { api, need, type Schemas } from "../../api/client";
import { loadRecord, recordsQuery } from "../../api/config";
import { policy as texts } from "../../texts/policy";
import { useChangeSearch } from "../../ui/address";
import { CodeEditor } from "../../ui/code/CodeEditor";
import { Panel } from "../../ui/Panel";
import { ShortId } from "../../ui/parts";
import { readObject } from "../../ui/recordText";
import { Failure } from "../../ui/states";
import { AgentSelect } from "./Bench";
import { Decision } from "./Decision";
import { readSection, type Behavior } from "./rules";

const route = getRouteApi("/policy");
const ORDER: readonly Behavior[] = ["allow", "ask", "deny"];

function Newly({ behavior, found }: { behavior: Behavior; found: Schemas["ChangedCalls"] }) {
  return (
    <section aria-label={texts.newly[behavior]}>
      {behavior === "allow" ? <Alert color="red" icon={<IconAlertTriangle size={18} />} p="xs" role="alert"><Text size="sm" fw={600}>{found.count} {texts.newly.allow}</Text></Alert>
        : <Text size="sm" fw={600}>{found.count} {texts.newly[behavior]}</Text>}
      <Table.ScrollContainer minWidth={560} scrollAreaProps={{ viewportProps: { tabIndex: 0, role: "region", "aria-label": `${texts.examples}: ${texts.newly[behavior]}` } }}>
        <Table>
          <Table.Thead><Table.Tr>{Object.values(texts.exampleColumns).map((it) => <Table.Th key={it}>{it}</Table.Th>)}</Table.Tr></Table.Thead>
          <Table.Tbody>
            {found.examples.map((it) => (
              <Table.Tr key={`${it.call.run_id}/${it.call.call_id}`}>
                <Table.Td><Code>{it.call.tool}</Code></Table.Td>
                <Table.Td><Group gap={4} wrap="nowrap"><Decision behavior={it.before} />→<Decision behavior={it.after} /></Group></Table.Td>
                <Table.Td>{it.rule === "default" ? texts.defaultRule : <Code>{it.rule}</Code>}</Table.Td>
                <Table.Td>{typeof it.call.run_id === "string" ? <Link to="/runs/$runId" params={{ runId: it.call.run_id }}><ShortId id={it.call.run_id} /></Link> : null}</Table.Td>
                <Table.Td><Text span ff="monospace" size="xs" lineClamp={1}>{JSON.stringify(it.call.arguments)}</Text></Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </section>
  );
}

function Results({ found }: { found: Schemas["PolicyComparison"] }) {
  const changed = ORDER.flatMap((behavior) => {
    const calls = found.newly[behavior];
    return calls === undefined || calls.count === 0 ? [] : [{ behavior, calls }];
  });
  return (
    <Stack gap="md" role="status">
      <Text size="sm" c="dimmed">{found.calls === 0 ? texts.noCalls : texts.ran(found.calls)}</Text>
      {changed.length === 0 && found.calls > 0 ? <Text size="sm">{texts.nothing}</Text> : changed.map((it) => <Newly key={it.behavior} behavior={it.behavior} found={it.calls} />)}
    </Stack>
  );
}

export function Compare() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const rulesets = useQuery(recordsQuery("rulesets"));
  const agent = useQuery({ queryKey: ["config", "record", "agents", search.agent], queryFn: ({ signal }) => loadRecord("agents", search.agent ?? "", signal), enabled: search.agent !== undefined, refetchInterval: false });
  const [text, setText] = useState("");
  const begin = (section: unknown) => setText(JSON.stringify(section, null, 2));
  const { data: record } = agent;
  useEffect(() => {
    if (record !== undefined) begin(readSection(record));
  }, [record]);
  const read = readObject(text);
  const compare = useMutation({ mutationFn: () => need(api.POST("/v1/policy/diff", { body: { agent: search.agent ?? null, old: null, new: ("body" in read ? read.body : {}) as Record<string, never>, limit: 10_000 } })) });
  return (
    <Panel title={texts.tabs.compare} description={texts.compareHelp}>
      <Stack gap="md">
        <Group align="flex-end">
          <AgentSelect value={search.agent} onChange={(next) => { compare.reset(); change({ agent: next }); }} />
          <Select label={texts.loadRuleset} w={220} data={(rulesets.data ?? []).map((it) => it.id)} value={null} disabled={search.agent === undefined || (rulesets.data ?? []).length === 0}
            onChange={(id) => { const found = rulesets.data?.find((it) => it.id === id); if (found !== undefined) begin({ rules: found.rules, default_behavior: found.default_behavior ?? "ask" }); }} />
        </Group>
        {agent.isError ? <Failure error={agent.error} /> : null}
        {record === undefined || search.agent === undefined ? null : (
          <>
            <div><Text size="sm" fw={500} mb={4}>{texts.rules}</Text><CodeEditor label={texts.rules} language="json" value={text} onChange={setText} maxHeight="46vh" /></div>
            <Group><Button variant="filled" loading={compare.isPending} disabled={"problem" in read} onClick={() => compare.mutate()}>{texts.run}</Button>{"problem" in read ? <Text size="sm" c="light-dark(var(--mantine-color-red-9), var(--mantine-color-red-4))">{texts.badArguments}</Text> : null}</Group>
          </>
        )}
        {compare.isError ? <Failure error={compare.error} /> : compare.data === undefined ? null : <Results found={compare.data} />}
      </Stack>
    </Panel>
  );
}
