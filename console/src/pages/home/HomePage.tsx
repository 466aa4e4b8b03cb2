/** The first page: whether anything needs a person, and where to go. */
import { Group, Stack, Text, Title } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { IconAlertTriangle, IconCircleCheck, IconClockQuestion } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, type LinkProps } from "@tanstack/react-router";
import { useEffect, type ReactNode } from "react";

import { root } from "../../api/address";
import { useMay } from "../../api/caller";
import { workersQuery } from "../../api/cluster";
import { headQuery } from "../../api/config";
import { openTicketCountQuery } from "../../api/openTickets";
import { agentsQuery, systemInfoQuery } from "../../api/queries";
import { home as texts } from "../../texts/home";
import { shell } from "../../texts/shell";
import { formatAge, formatCost, formatCount } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Age, ShortId, Status, useNow } from "../../ui/parts";
import { showHidden } from "../../ui/hostileText";
import { Failure, Loading } from "../../ui/states";
import { Tag } from "../../ui/Tag";
import { findUnknown, listNeeds, type Need } from "./attention";
import { FirstStart } from "./FirstStart";
import classes from "./Home.module.css";
import { dayQuery, deadQuery, healthQuery, modelsQuery, publicationsQuery, recentQuery, spendQuery, summaryQuery } from "./queries";
import type { BudgetStatus, Counted } from "./types";

function Needs({ needs, isPending }: { needs: readonly Need[]; isPending: boolean }) {
  const calm = isPending ? <Text size="sm" c="dimmed">{texts.looking}</Text> : <><IconCircleCheck size={20} className={classes.calm} aria-hidden /><Text size="sm" fw={550}>{texts.calm}</Text></>;
  return (
    <section className={classes.needs} aria-label={texts.attention}>
      {needs.length === 0 ? <div className={classes.need}>{calm}</div> : null}
      {needs.map((it) => {
        const Icon = it.level === "bad" ? IconAlertTriangle : IconClockQuestion;
        return (
          <Link key={it.key} to={it.path as LinkProps["to"]} search={it.search as never} className={classes.need} data-need={it.key}>
            <Icon size={20} className={it.level === "bad" ? classes.bad : classes.asks} aria-hidden />
            <Text size="sm" fw={550}>{showHidden(it.text)}</Text>
            {it.detail === undefined ? null : <Text size="sm" c="dimmed">{it.detail}</Text>}
          </Link>
        );
      })}
    </section>
  );
}

type TileProps = { label: string; value: ReactNode; detail?: ReactNode; to: LinkProps["to"]; search?: Record<string, string>; isBad?: boolean };

function Tile({ label, value, detail, to, search, isBad }: TileProps) {
  return (
    <Link to={to} search={search as never} data-bad={isBad === true || undefined} className={classes.tile} data-tile={label}>
      <Text size="xs" c="dimmed">{label}</Text>
      <Text size="xl" fw={600} lh={1.4} component="div">{value}</Text>
      {detail === undefined ? null : <Text size="xs" c="dimmed" component="div">{detail}</Text>}
    </Link>
  );
}

const showCount = ({ count, isMore }: Counted) => `${formatCount(count)}${isMore ? "+" : ""}`;

function describeBudgets(budgets: readonly BudgetStatus[]): string {
  if (budgets.length === 0) return texts.noBudgets;
  const used = budgets.find((it) => it.used !== null && it.used !== undefined && typeof it.budget.cost_usd === "number");
  return used === undefined ? texts.budgets(budgets.length) : texts.budgetUsed(formatCost(used.used?.nanos ?? 0), `$${used.budget.cost_usd ?? 0}`);
}

function Tiles() {
  const may = useMay();
  const now = useNow();
  const { data: summary } = useQuery(summaryQuery);
  const { data: day } = useQuery(dayQuery);
  const { data: tickets } = useQuery(openTicketCountQuery);
  const { data: dead } = useQuery(deadQuery);
  const { data: models } = useQuery({ ...modelsQuery, retry: false });
  const { data: workers } = useQuery({ ...workersQuery, retry: false });
  const { data: spend } = useQuery({ ...spendQuery, retry: false });
  const { data: head } = useQuery({ ...headQuery, enabled: may("config"), retry: false });
  const open = models?.filter((it) => it.state !== "closed") ?? [];
  return (
    <div className={classes.grid}>
      {summary === undefined ? null : <Tile label={texts.now} to="/runs" value={formatCount(summary.running ?? 0)} detail={`${texts.running} · ${summary.waiting ?? 0} ${texts.waiting} · ${summary.created ?? 0} ${texts.queued}`} />}
      {day === undefined ? null : <Tile label={texts.lastDay} to="/runs" isBad={day.failed > 0} value={formatCount(day.started)} detail={`${texts.all} · ${formatCount(day.ended)} ${texts.ended} · ${formatCount(day.failed)} ${texts.failed}`} />}
      {tickets === undefined ? null : <Tile label={texts.approvals} to="/approvals" value={`${formatCount(tickets.count)}${tickets.isMore ? "+" : ""}`} detail={tickets.oldest === null ? texts.open : `${texts.open} · ${texts.needs.oldest(formatAge(tickets.oldest, now))}`} />}
      {dead === undefined ? null : <Tile label={texts.deadLetters} to="/queue" search={{ view: dead.letters.count === 0 && dead.outbox.count > 0 ? "outbox" : "dead" }} isBad={dead.letters.count + dead.outbox.count > 0} value={showCount(dead.letters)} detail={texts.outboxCount(showCount(dead.outbox))} />}
      {models === undefined ? null : <Tile label={texts.models} to="/models" isBad={open.length > 0} value={open.length === 0 ? formatCount(models.length) : `${formatCount(models.length - open.length)} / ${formatCount(models.length)}`} detail={open.length === 0 ? texts.modelsHealthy : texts.modelsOpen(open.map((it) => it.model_id).join(", "))} />}
      {spend === undefined ? null : <Tile label={texts.spend} to="/cost" value={spend.total.cost_nanos == null && (spend.total.input_tokens ?? 0) + (spend.total.output_tokens ?? 0) > 0 ? <Text span size="md">{texts.noPrice}</Text> : formatCost(spend.total.cost_nanos ?? 0)} detail={`${texts.spendRuns(formatCount(spend.total.runs ?? 0))} · ${describeBudgets(spend.budgets)}`} />}
      {workers === undefined ? null : <Tile label={texts.workers} to="/cluster" value={formatCount(workers.length)} detail={texts.slots(workers.reduce((sum, it) => sum + (it.running ?? 0), 0), workers.reduce((sum, it) => sum + (it.slots ?? 0), 0))} />}
      {head === undefined ? null : <Tile label={texts.head} to="/changes" value={head.publication === null ? texts.code : `#${head.publication}`} />}
    </div>
  );
}

function Recent() {
  const { data: runs = [] } = useQuery(recentQuery);
  return (
    <section aria-label={texts.recent}>
      <Title order={2} mb="xs">{texts.recent}</Title>
      <div className={classes.needs}>
        {runs.map((it) => (
          <Link key={it.run_id} to="/runs/$runId" params={{ runId: it.run_id }} className={classes.row}>
            <span className={classes.status}><Status value={it.termination?.type === "error" ? "failed" : it.status} label={it.termination?.type === "error" ? texts.failed : undefined} /></span>
            <Text size="sm">{it.agent_id}</Text><ShortId id={it.run_id} /><Text span ml="auto"><Age at={it.created_at} /></Text>
          </Link>
        ))}
      </div>
    </section>
  );
}

function Publications() {
  const { data: head } = useQuery({ ...headQuery, retry: false });
  const { data: publications = [] } = useQuery({ ...publicationsQuery, retry: false });
  return (
    <section aria-label={texts.publications}>
      <Title order={2} mb="xs">{texts.publications}</Title>
      <div className={classes.needs}>
        {publications.length === 0 ? <div className={classes.row}><Text size="sm" c="dimmed">{texts.noPublications}</Text></div> : null}
        {publications.map((it) => (
          <Link key={it.publication} to="/changes" className={classes.row}>
            <Text size="sm" fw={600}>#{it.publication}</Text>{it.publication === head?.publication ? <Tag color="green">{texts.live}</Tag> : it.publication === head?.canary?.publication ? <Tag color="blue">{texts.canary}</Tag> : null}{it.message == null || it.message === "" ? null : <Text size="sm" truncate>{showHidden(it.message)}</Text>}
            <Text size="xs" c="dimmed">{it.created_by}</Text><Text span ml="auto"><Age at={it.created_at ?? null} /></Text>
          </Link>
        ))}
      </div>
    </section>
  );
}

function Body() {
  const may = useMay();
  const now = useNow();
  const { data: health } = useQuery(healthQuery);
  const tickets = useQuery(openTicketCountQuery);
  const dead = useQuery(deadQuery);
  const models = useQuery({ ...modelsQuery, retry: false });
  const workers = useQuery({ ...workersQuery, retry: false });
  const head = useQuery({ ...headQuery, enabled: may("config"), retry: false });
  const day = useQuery(dayQuery);
  const { data: recent, error, refetch } = useQuery(recentQuery);
  const { data: agents = [] } = useQuery(agentsQuery);
  // The cards stay after the first run, which is often one of theirs, until they are hidden.
  const [hasCards, setCards] = useLocalStorage({ key: `awaken.first${root}`, defaultValue: false, getInitialValueInEffect: false });
  const isFirst = recent?.length === 0;
  useEffect(() => { if (isFirst) setCards(true); }, [isFirst, setCards]);
  if (health === undefined || (recent === undefined && error === null)) return <Loading rows={5} />;
  const { unknown, isPending } = findUnknown({ tickets, dead, models, workers, head, day });
  const needs = listNeeds({ health, tickets: tickets.data, dead: dead.data, models: models.data, workers: workers.data, head: head.data, failed: day.data?.failed, unknown }, now);
  // A store that does not answer hides the figures, not what is wrong.
  if (recent === undefined) return <Stack gap="md">{needs.length === 0 ? null : <Needs needs={needs} isPending={isPending} />}<Failure error={error} onRetry={() => void refetch()} /></Stack>;
  return (
    <Stack gap="md">
      <Needs needs={needs} isPending={isPending} />
      {isFirst || hasCards ? <FirstStart agents={agents.map((it) => it.id)} isFirst={isFirst} onHide={() => setCards(false)} /> : null}
      <Tiles />
      {recent.length === 0 ? null : <div className={classes.two}><Recent />{may("config") ? <Publications /> : null}</div>}
    </Stack>
  );
}

const UNHEALTHY = { value: "error", label: texts.unhealthy };
const HEALTH_LOOKS: Record<string, { value: string; label: string }> = { healthy: { value: "healthy", label: texts.healthy }, degraded: { value: "waiting", label: texts.degraded } };

export function HomePage() {
  const may = useMay();
  const { data: info } = useQuery({ ...systemInfoQuery, enabled: may("read") });
  const { data: health } = useQuery(healthQuery);
  const description = health === undefined ? undefined : (
    <Group gap="sm" component="span" display="inline-flex"><Status {...(HEALTH_LOOKS[health.status] ?? UNHEALTHY)} />{info === undefined ? null : <span>{info.agents} agents · {info.store} · {info.version}</span>}</Group>
  );
  return <Page title={shell.pages.home} description={description}>{may("read") ? <Body /> : null}</Page>;
}
