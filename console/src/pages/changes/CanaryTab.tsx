/** The canary: how both sides fare, and the decision between them. */
import { Button, Group, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api, need, type Schemas } from "../../api/client";
import { nameCanary, type Guardrails, type Head } from "../../api/config";
import { refreshKinds } from "../../api/queries";
import { changes as texts } from "../../texts/changes";
import { ui } from "../../texts/ui";
import { useConfirm } from "../../ui/confirm";
import { formatCount, formatDuration, formatPercent } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { Panel } from "../../ui/Panel";
import { Age } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import { summarizeSide, type SideFigures } from "./canaryPlan";

const RUNS = 200;
const PAGES_MAX = 5;
type Canary = Schemas["Canary"];

/** Reads the newest runs of one side since the canary began. Runs on the code alone have no publication to filter by: they are picked from all. */
async function loadSide(publication: number | null, since: number, signal: AbortSignal): Promise<SideFigures> {
  const found: Schemas["RunView"][] = [];
  let cursor: string | null | undefined;
  for (let page = 0; page < PAGES_MAX && found.length < RUNS; page += 1) {
    const query = { order: "desc", limit: RUNS, since, cursor, ...(publication === null ? {} : { publication }) } as const;
    const listed = await need(api.GET("/v1/runs", { params: { query }, signal }));
    found.push(...listed.items.filter((it) => (it.publication ?? null) === publication));
    cursor = listed.next_cursor;
    if (!listed.has_more || cursor === null || cursor === undefined) break;
  }
  return summarizeSide(found.slice(0, RUNS), since);
}

function describeGuards(guards: Guardrails = {}): string {
  const said = [
    guards.max_error_rate === undefined || guards.max_error_rate === null ? null : `${texts.maxErrorRate}: ${guards.max_error_rate * 100}`,
    guards.max_error_rate_ratio === undefined || guards.max_error_rate_ratio === null ? null : `× ${guards.max_error_rate_ratio}`,
    guards.max_p95_ms === undefined || guards.max_p95_ms === null ? null : `${texts.p95} ${formatDuration(guards.max_p95_ms)}`,
    guards.max_cost_usd_per_run === undefined || guards.max_cost_usd_per_run === null ? null : `${texts.maxCost}: ${guards.max_cost_usd_per_run}`,
  ].filter((it) => it !== null);
  return said.length === 0 ? texts.noGuards : `${said.join(" · ")} · ${texts.minRuns}: ${guards.min_runs ?? 20}`;
}

function SideRow({ name, publication, figures }: { name: string; publication: number | null; figures: SideFigures }) {
  const show = (value: number | null | undefined, format: (value: number) => string) => (value === null || value === undefined ? ui.none : format(value));
  return (
    <Table.Tr>
      <Table.Th scope="row">{name}</Table.Th>
      <Table.Td>{publication === null ? texts.head.none : <Link to="/runs" search={{ publication: String(publication) }}>{publication}</Link>}</Table.Td>
      <Table.Td ta="right">{show(figures.runs, formatCount)}</Table.Td>
      <Table.Td ta="right">{figures.runs === 0 ? ui.none : `${figures.failed} (${formatPercent(figures.failed / figures.runs)})`}</Table.Td>
      <Table.Td ta="right">{show(figures.p50, formatDuration)}</Table.Td>
      <Table.Td ta="right">{show(figures.p95, formatDuration)}</Table.Td>
      <Table.Td ta="right">{show(figures.tokens, (it) => formatCount(Math.round(it)))}</Table.Td>
    </Table.Tr>
  );
}

function RunningCanary({ canary, live }: { canary: Canary; live: number | null }) {
  const confirm = useConfirm();
  const query = useQuery({
    queryKey: ["run", "canary", canary.publication, live],
    queryFn: async ({ signal }) => ({ live: await loadSide(live, canary.since, signal), canary: await loadSide(canary.publication, canary.since, signal) }),
  });
  const decide = async (method: "POST" | "DELETE", title: string, body: string, done: string, word: string) => {
    if (!(await confirm({ title, body: <Text size="sm">{body}</Text>, confirm: word, isDangerous: method === "DELETE" }))) return;
    try {
      // Only the canary whose figures were read: a colleague may have begun another one meanwhile.
      const seen = nameCanary(canary);
      await need(method === "POST" ? api.POST("/v1/config/canary/promote", { body: { ...seen, message: "" } }) : api.DELETE("/v1/config/canary", { params: { query: seen } }));
      noteDone(done);
    } catch (error) {
      noteError(error);
    }
    await refreshKinds("config", "agent", "audit");
  };
  const actions = (
    <>
      <GatedButton scope="publish" onClick={() => void decide("DELETE", texts.stopTitle, texts.stopBody(canary.publication), texts.stopped, texts.stop)}>{texts.stop}</GatedButton>
      <GatedButton scope="publish" variant="filled" onClick={() => void decide("POST", texts.promoteTitle, texts.promoteBody(canary.publication), texts.promoted, texts.promote)}>{texts.promote}</GatedButton>
    </>
  );
  return (
    <Panel title={texts.canaryTitle(canary.publication, canary.plan.percent)} description={<>{texts.canarySince} <Age at={canary.since} /> · {texts.by.toLowerCase()}: {texts.byOptions[canary.plan.by ?? "thread"]}</>} actions={actions}>
      {query.isError ? <Failure error={query.error} /> : query.data === undefined ? <Loading rows={3} /> : (
        <Stack gap="xs">
          <Table.ScrollContainer minWidth={520} scrollAreaProps={{ viewportProps: { tabIndex: 0, role: "region", "aria-label": texts.tabs.canary } }}>
            <Table>
              <Table.Thead>
                <Table.Tr><Table.Th>{texts.side}</Table.Th><Table.Th>{texts.columns.number}</Table.Th><Table.Th ta="right">{texts.runs}</Table.Th><Table.Th ta="right">{texts.errors}</Table.Th><Table.Th ta="right">{texts.p50}</Table.Th><Table.Th ta="right">{texts.p95}</Table.Th><Table.Th ta="right">{texts.tokens}</Table.Th></Table.Tr>
              </Table.Thead>
              <Table.Tbody><SideRow name={texts.live} publication={live} figures={query.data.live} /><SideRow name={texts.canary} publication={canary.publication} figures={query.data.canary} /></Table.Tbody>
            </Table>
          </Table.ScrollContainer>
          <Text size="xs" c="dimmed">{texts.figuresHelp(RUNS)}</Text>
          <Group gap={6}><Text size="sm" fw={550}>{texts.guards}</Text><Text size="sm">{describeGuards(canary.plan.guardrails)}</Text></Group>
        </Stack>
      )}
    </Panel>
  );
}

export function CanaryTab({ head }: { head: Head }) {
  if (head.canary !== null) return <RunningCanary canary={head.canary} live={head.publication} />;
  return <Empty title={texts.noCanaryTitle} action={<Button renderRoot={(props) => <Link to="/changes" search={{ tab: "publications" }} {...props} />}>{texts.tabs.publications}</Button>}>{texts.noCanaryHelp}</Empty>;
}
