/** Where a run came from and what it started: parent, children, forks, remote tasks. */
import { Group, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { api, need } from "../../api/client";
import { run as texts } from "../../texts/run";
import { runs as runsTexts } from "../../texts/runs";
import { formatTokens } from "../../ui/format";
import { Age, CopyableId, ShortId, Status, Took } from "../../ui/parts";
import { Failure, Loading } from "../../ui/states";
import { runQuery, type Run } from "./queries";
import type { TabProps } from "./RunPage";
import { lookOf } from "./words";

const THREADS_MAX = 50;

function Section({ title, children }: { title: string; children: ReactNode }) {
  return <section aria-label={title}><Title order={2} mb={4}>{title}</Title>{children}</section>;
}

function RunsTable({ label, runs, current }: { label: string; runs: readonly Run[]; current?: string }) {
  const { columns } = runsTexts;
  return (
    <Table.ScrollContainer minWidth={520} type="native" tabIndex={0} role="region" aria-label={label}>
      <Table fz="sm" verticalSpacing={4}>
        <Table.Thead><Table.Tr><Table.Th>{columns.run}</Table.Th><Table.Th>{columns.status}</Table.Th><Table.Th>{columns.agent}</Table.Th><Table.Th>{columns.created}</Table.Th><Table.Th ta="right">{columns.took}</Table.Th><Table.Th ta="right">{columns.tokens}</Table.Th></Table.Tr></Table.Thead>
        <Table.Tbody>
          {runs.map((it) => (
            <Table.Tr key={it.run_id}>
              <Table.Td>{it.run_id === current ? <><ShortId id={it.run_id} /> <Text span size="xs" c="dimmed">{texts.lineage.this}</Text></> : <Link to="/runs/$runId" params={{ runId: it.run_id }}><ShortId id={it.run_id} /></Link>}</Table.Td>
              <Table.Td><Status value={lookOf(it)} /></Table.Td><Table.Td>{it.agent_id}</Table.Td><Table.Td><Age at={it.created_at} /></Table.Td>
              <Table.Td ta="right"><Took from={it.started_at} to={it.finished_at} /></Table.Td><Table.Td ta="right">{formatTokens((it.input_tokens ?? 0) + (it.output_tokens ?? 0))}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

async function fetchFamily(run: Run, signal: AbortSignal) {
  const thread_id = run.thread_id;
  const [thread, siblings, below] = await Promise.all([
    need(api.GET("/v1/threads/{thread_id}", { params: { path: { thread_id } }, signal })),
    need(api.GET("/v1/threads/{thread_id}/runs", { params: { path: { thread_id }, query: { kind: "any", order: "desc", limit: 50 } }, signal })),
    need(api.GET("/v1/threads", { params: { query: { parent_thread_id: thread_id, limit: THREADS_MAX } }, signal })),
  ]);
  const lists = await Promise.all(
    below.items.map((it) => need(api.GET("/v1/threads/{thread_id}/runs", { params: { path: { thread_id: it }, query: { kind: "any", limit: 50 } }, signal }))),
  );
  const children = lists.flatMap((it) => it.items).filter((it) => it.parent_run_id === run.run_id);
  return { thread, siblings: siblings.items, children };
}

export function LineageTab({ run }: TabProps) {
  const family = useQuery({ queryKey: ["run", "family", run.run_id], queryFn: ({ signal }) => fetchFamily(run, signal) });
  const parent = useQuery({ ...runQuery(run.parent_run_id ?? ""), enabled: run.parent_run_id != null });
  if (family.error !== null && family.data === undefined) return <Failure error={family.error} onRetry={() => void family.refetch()} />;
  if (family.data === undefined) return <Loading />;
  const { thread, siblings } = family.data;
  // Only agents of remote servers have a slash in their ids.
  const children = family.data.children.filter((it) => !it.agent_id.includes("/"));
  const remote = family.data.children.filter((it) => it.agent_id.includes("/"));
  return (
    <Stack gap="lg">
      <Section title={texts.lineage.parent}>
        {run.parent_run_id == null ? <Text size="sm" c="dimmed">{texts.lineage.noParent}</Text> : (
          <>
            {parent.data === undefined ? <CopyableId id={run.parent_run_id} /> : <RunsTable label={`${texts.lineage.parent}: ${runsTexts.columns.run}`} runs={[parent.data]} />}
            {run.parent_tool_call_id == null ? null : <Text size="sm" c="dimmed">{texts.lineage.call(run.parent_tool_call_id)}</Text>}
          </>
        )}
      </Section>
      <Section title={texts.lineage.children}>{children.length === 0 ? <Text size="sm" c="dimmed">{texts.lineage.noChildren}</Text> : <RunsTable label={`${texts.lineage.children}: ${runsTexts.columns.run}`} runs={children} />}</Section>
      <Section title={texts.lineage.remote}>{remote.length === 0 ? <Text size="sm" c="dimmed">{texts.lineage.noRemote}</Text> : <RunsTable label={`${texts.lineage.remote}: ${runsTexts.columns.run}`} runs={remote} />}</Section>
      <Section title={texts.lineage.forkedFrom}>
        {thread.forked_from == null ? <Text size="sm" c="dimmed">{texts.lineage.noFork}</Text> : <Link to="/threads/$threadId" params={{ threadId: thread.forked_from.thread_id }}><ShortId id={thread.forked_from.thread_id} /></Link>}
      </Section>
      <Section title={texts.lineage.before}><RunsTable label={`${texts.lineage.before}: ${runsTexts.columns.run}`} runs={siblings} current={run.run_id} /></Section>
      <Group gap="lg">
        {([[texts.lineage.dispatch, run.dispatch_id], [texts.lineage.session, run.session_id], [texts.lineage.request, run.transport_request_id]] as const).map(([name, id]) => (id == null ? null : <Text key={name} size="sm"><Text span c="dimmed">{name} </Text><CopyableId id={id} /></Text>))}
      </Group>
    </Stack>
  );
}
