/** One run: what it is, why it ended or waits, what can be done about it, and its views. */
import { Box, Button, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Suspense, useMemo } from "react";

import { ApiError } from "../../api/errors";
import { useKeys } from "../../keys";
import { run as texts } from "../../texts/run";
import { useChangeSearch } from "../../ui/address";
import { lazyPart } from "../../ui/loadPart";
import { Page } from "../../ui/Page";
import { CopyableId, Status } from "../../ui/parts";
import { Empty, Failure, Loading } from "../../ui/states";
import { useRunLog, type RunLog } from "./log";
import { runQuery, type Run } from "./queries";
import { RunActions } from "./RunActions";
import { RunFacts } from "./RunFacts";
import { RunTickets } from "./RunTickets";
import { listTabs, readStep, readTab, type RunSearch, type TabName } from "./search";
import { WaterfallTab } from "./WaterfallTab";
import { describeRun, lookOf } from "./words";

const TranscriptTab = lazyPart(() => import("./TranscriptTab").then((it) => ({ default: it.TranscriptTab })));
const EventsTab = lazyPart(() => import("./EventsTab").then((it) => ({ default: it.EventsTab })));
const RequestsTab = lazyPart(() => import("./RequestsTab").then((it) => ({ default: it.RequestsTab })));
const StateTab = lazyPart(() => import("./StateTab").then((it) => ({ default: it.StateTab })));
const CostTab = lazyPart(() => import("./CostTab").then((it) => ({ default: it.CostTab })));
const WorkflowTab = lazyPart(() => import("./WorkflowTab").then((it) => ({ default: it.WorkflowTab })));
const LineageTab = lazyPart(() => import("./LineageTab").then((it) => ({ default: it.LineageTab })));

/** What every view of a run is given. */
export type TabProps = { run: Run; search: RunSearch; onSearch: (change: RunSearch) => void; log: RunLog };

const VIEWS: Record<TabName, (props: TabProps) => React.ReactNode> = {
  workflow: WorkflowTab, waterfall: WaterfallTab, transcript: TranscriptTab, events: EventsTab, requests: RequestsTab, state: StateTab, cost: CostTab, lineage: LineageTab,
};
const route = getRouteApi("/runs/$runId");

export function RunPage() {
  const { runId } = route.useParams();
  const { data, error, refetch } = useQuery(runQuery(runId));
  if (data !== undefined) return <LoadedRun run={data} />;
  if (error instanceof ApiError && error.status === 404) {
    return (
      <Page title={texts.title}>
        <Empty title={texts.notFound} action={<Button renderRoot={(props) => <Link to="/runs" {...props} />}>{texts.allRuns}</Button>} command={`awaken runs show ${runId}`}>{texts.notFoundHelp}</Empty>
      </Page>
    );
  }
  return <Page title={texts.title}>{error === null ? <Loading /> : <Failure error={error} onRetry={() => void refetch()} />}</Page>;
}

function LoadedRun({ run }: { run: Run }) {
  const search = route.useSearch();
  const onSearch = useChangeSearch() as (change: RunSearch) => void;
  const tabs = listTabs(run.is_workflow);
  const tab = readTab(search, run.is_workflow);
  const isLive = run.status === "running" || run.status === "created";
  const log = useRunLog(run.run_id, isLive, run.updated_at, isLive || tab === "events" || tab === "state");
  const step = readStep(search);
  useKeys(
    useMemo(() => {
      const go = (to: number) => onSearch({ step: String(Math.max(1, Math.min(Math.max(1, run.steps), to))) });
      return { previousStep: () => go((step ?? 2) - 1), nextStep: () => go((step ?? 0) + 1) };
    }, [onSearch, run.steps, step]),
  );
  const View = VIEWS[tab];
  return (
    <Page
      title={<>{texts.title} <CopyableId id={run.run_id} chars={18} /></>}
      name={`${texts.title} ${run.run_id}`}
      description={<Box component="span" display="inline-flex" style={{ gap: 8, flexWrap: "wrap", alignItems: "center" }}><Status value={lookOf(run)} /><Text span size="sm" role="status" style={{ overflowWrap: "anywhere" }}>{describeRun(run)}</Text></Box>}
      actions={<RunActions run={run} />}
    >
      <RunFacts run={run} />
      <RunTickets run={run} />
      <Tabs value={tab} onChange={(value) => onSearch({ tab: value === tabs[0] || value === null ? undefined : value, span: undefined, seq: undefined })} keepMounted={false}>
        <Tabs.List aria-label={texts.tabsLabel} mb="sm">
          {tabs.map((it) => <Tabs.Tab key={it} value={it} px="sm" py={8}>{texts.tabs[it]}</Tabs.Tab>)}
        </Tabs.List>
        <Tabs.Panel value={tab}>
          <Suspense fallback={<Loading />}><View run={run} search={search} onSearch={onSearch} log={log} /></Suspense>
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
