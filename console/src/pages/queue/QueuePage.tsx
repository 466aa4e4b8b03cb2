/** The queue: what waits for agents, who works on what, and what was given up. */
import { Box, Group, SegmentedControl, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { api, need } from "../../api/client";
import { queue as texts } from "../../texts/queue";
import { shell } from "../../texts/shell";
import { useChangeSearch } from "../../ui/address";
import { formatCount } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Age } from "../../ui/parts";
import { Loading } from "../../ui/states";
import { sumDepth } from "./depth";
import { DeliveryTable } from "./DeliveryTable";
import { OutboxTable } from "./OutboxTable";
import classes from "./Queue.module.css";

const route = getRouteApi("/queue");
const COUNTED = 200;
type View = keyof typeof texts.views;

function useCounted(status: "queued" | "claimed" | "dead_letter") {
  return useQuery({
    queryKey: ["dispatch", "count", status],
    queryFn: ({ signal }) => need(api.GET("/v1/dispatches", { signal, params: { query: { status, limit: COUNTED } } })),
  });
}

/** What waits and what is worked on, by agent. */
function Depth() {
  const queued = useCounted("queued");
  const claimed = useCounted("claimed");
  if (queued.data === undefined || claimed.data === undefined) return <Loading rows={1} />;
  const rows = sumDepth(queued.data.items, claimed.data.items, texts.anyAgent);
  const isMore = queued.data.next_cursor !== null && queued.data.next_cursor !== undefined;
  if (rows.length === 0) return <Text size="sm" c="dimmed">{texts.nothingWaits}</Text>;
  return (
    <Box className={classes.depth} tabIndex={0} role="region" aria-label={texts.depth}>
      <Table withRowBorders={false} verticalSpacing={3}>
        <Table.Thead><Table.Tr>{Object.values(texts.depthColumns).map((it, index) => <Table.Th key={it} ta={index === 0 ? undefined : "right"}>{it}</Table.Th>)}</Table.Tr></Table.Thead>
        <Table.Tbody>
          {rows.map((it) => (
            <Table.Tr key={it.agent}>
              <Table.Td><Link to="/queue" search={{ view: "waiting", agent: it.agent }}>{it.agent}</Link></Table.Td>
              <Table.Td ta="right">{formatCount(it.queued)}{isMore ? ` ${texts.more}` : ""}</Table.Td>
              <Table.Td ta="right">{formatCount(it.claimed)}</Table.Td>
              <Table.Td ta="right"><Age at={it.oldest} /></Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Box>
  );
}

function readView(given: string | undefined): View | null {
  return given !== undefined && Object.hasOwn(texts.views, given) ? (given as View) : null;
}

export function QueuePage() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const dead = useCounted("dead_letter");
  const deadCount = dead.data?.items.length ?? 0;
  // What needs a person comes first.
  const view = readView(search.view) ?? (deadCount > 0 ? "dead" : "waiting");
  const data = Object.entries(texts.views).map(([value, label]) => ({ value, label: value === "dead" && deadCount > 0 ? `${label} (${deadCount}${deadCount === COUNTED ? "+" : ""})` : label }));
  const choose = (next: string) => change({ view: next, sort: undefined, columns: undefined });
  return (
    <Page title={shell.pages.queue} description={texts.description}>
      <Depth />
      <Group my="md" className={classes.views} tabIndex={0} role="region" aria-label={texts.viewLabel}>
        <SegmentedControl aria-label={texts.viewLabel} value={view} onChange={choose} data={data} />
      </Group>
      {dead.isPending ? <Loading /> : view === "outbox" ? <OutboxTable /> : <DeliveryTable key={view} view={view} />}
    </Page>
  );
}
