/** The runs, the queue, the tickets and the children of a thread, as short tables. */
import { Group, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { Schemas } from "../../api/client";
import { approvals } from "../../texts/approvals";
import { queue } from "../../texts/queue";
import { runs as runTexts } from "../../texts/runs";
import { threads as texts } from "../../texts/threads";
import { ui } from "../../texts/ui";
import { formatCount, formatTokens } from "../../ui/format";
import { Age, CopyableId, ShortId, Status, Took } from "../../ui/parts";
import { ShownText } from "../../ui/SafeText";
import { Failure, Loading } from "../../ui/states";
import { spellStatus } from "../queue/depth";
import { childrenQuery, forksQuery, mailboxQuery, runsQuery, ticketsQuery } from "./queries";
import classes from "./Thread.module.css";

type Listed<Row> = { items: readonly Row[] };
type Column<Row> = { header: string; cell: (row: Row) => ReactNode };
type Props<Row> = { query: UseQueryResult<Listed<Row>>; columns: readonly Column<Row>[]; rowId: (row: Row) => string; label: string; empty: string };

function ShortTable<Row>({ query, columns, rowId, label, empty }: Props<Row>) {
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  if (query.isPending) return <Loading rows={3} />;
  if (query.data.items.length === 0) return <Text size="sm" c="dimmed">{empty}</Text>;
  return (
    <div className={classes.table} tabIndex={0} role="region" aria-label={label}>
      <Table verticalSpacing={4}>
        <Table.Thead><Table.Tr>{columns.map((it) => <Table.Th key={it.header}>{it.header}</Table.Th>)}</Table.Tr></Table.Thead>
        <Table.Tbody>{query.data.items.map((row) => <Table.Tr key={rowId(row)}>{columns.map((it) => <Table.Td key={it.header}>{it.cell(row)}</Table.Td>)}</Table.Tr>)}</Table.Tbody>
      </Table>
    </div>
  );
}

export function ThreadRuns({ threadId }: { threadId: string }) {
  return (
    <ShortTable
      query={useQuery(runsQuery(threadId))} rowId={(it) => it.run_id} label={texts.tabs.runs} empty={texts.runsEmpty}
      columns={[
        { header: runTexts.columns.run, cell: (it) => <Link to="/runs/$runId" params={{ runId: it.run_id }}><ShortId id={it.run_id} /></Link> },
        { header: runTexts.columns.status, cell: (it) => <Status value={it.status} /> },
        { header: runTexts.columns.agent, cell: (it) => it.agent_id },
        { header: runTexts.columns.created, cell: (it) => <Age at={it.created_at} /> },
        { header: runTexts.columns.took, cell: (it) => <Took from={it.started_at} to={it.finished_at} /> },
        { header: runTexts.columns.tokens, cell: (it) => formatTokens((it.input_tokens ?? 0) + (it.output_tokens ?? 0)) },
        { header: runTexts.columns.end, cell: (it) => it.termination_reason ?? it.waiting?.reason ?? ui.none },
      ]}
    />
  );
}

export function ThreadQueue({ threadId }: { threadId: string }) {
  return (
    <ShortTable
      query={useQuery(mailboxQuery(threadId))} rowId={(it) => it.dispatch_id} label={texts.tabs.queue} empty={texts.queueEmpty}
      columns={[
        { header: queue.columns.delivery, cell: (it) => <CopyableId id={it.dispatch_id} /> },
        { header: queue.columns.status, cell: (it) => <Status value={spellStatus(it.status)} /> },
        { header: queue.columns.mode, cell: (it) => it.mode },
        { header: queue.columns.age, cell: (it) => <Age at={it.created_at} /> },
        { header: queue.columns.attempts, cell: (it) => `${it.attempt_count} / ${it.max_attempts}` },
        { header: queue.columns.run, cell: (it) => <Link to="/runs/$runId" params={{ runId: it.taken_by ?? it.run_id }}><ShortId id={it.taken_by ?? it.run_id} /></Link> },
        { header: queue.columns.error, cell: (it) => <ShownText text={it.last_error ?? ui.none} /> },
      ]}
    />
  );
}

export function ThreadTickets({ threadId }: { threadId: string }) {
  return (
    <ShortTable
      query={useQuery(ticketsQuery(threadId))} rowId={(it) => it.ticket_id} label={texts.tabs.tickets} empty={texts.ticketsEmpty}
      columns={[
        { header: approvals.columns.tool, cell: (it) => <Text span size="sm" ff="monospace"><ShownText text={it.tool_name} /></Text> },
        { header: approvals.columns.message, cell: (it) => <ShownText text={it.suspension.message ?? ui.none} /> },
        { header: approvals.facts.waiting, cell: (it) => <Age at={it.created_at} /> },
        { header: approvals.facts.ticket, cell: (it) => <Group gap="xs" wrap="nowrap"><Link to="/approvals" search={{ ticket: it.ticket_id }}>{texts.openInbox}</Link></Group> },
      ]}
    />
  );
}

const RELATIVES: readonly Column<Schemas["ThreadSummary"]>[] = [
  { header: texts.columns.title, cell: (it) => <Link to="/threads/$threadId" params={{ threadId: it.id }}>{it.title === null || it.title === "" ? <ShortId id={it.id} /> : <ShownText text={it.title} />}</Link> },
  { header: texts.columns.agent, cell: (it) => it.agent_id ?? ui.none },
  { header: texts.columns.updated, cell: (it) => <Age at={it.updated_at} /> },
  { header: texts.columns.id, cell: (it) => <CopyableId id={it.id} /> },
];

/** The threads that came from this one: those that its runs began, and its forks. */
export function ThreadChildren({ threadId }: { threadId: string }) {
  const forks = useQuery(forksQuery(threadId));
  return (
    <Stack gap="md">
      <div>
        <Title order={2} mb={6}>{texts.children}</Title>
        <ShortTable query={useQuery(childrenQuery(threadId))} rowId={(it) => it.id} label={texts.children} empty={texts.childrenEmpty} columns={RELATIVES} />
      </div>
      <div>
        <Title order={2} mb={6}>{texts.forks}</Title>
        <ShortTable query={forks} rowId={(it) => it.id} label={texts.forks} empty={texts.forksEmpty} columns={RELATIVES} />
        {forks.data === undefined ? null : <Text size="xs" c="dimmed" mt={4}>{texts.forksLookedAt(formatCount(forks.data.looked_at), forks.data.is_complete)}</Text>}
      </div>
    </Stack>
  );
}
