/** The evals, newest first, with their verdicts. */
import { Button, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";

import { datasetsQuery, fetchEvals, type EvalRecord } from "../../api/evals";
import { usePagedList } from "../../api/paging";
import { evals as texts } from "../../texts/evals";
import { shell } from "../../texts/shell";
import { ui } from "../../texts/ui";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { Missing, Verdicts } from "../../ui/evals/parts";
import { describeSpent } from "../../ui/evals/words";
import { ShowDemo } from "../../ui/DemoData";
import { Filters, WITH_DEMO } from "../../ui/Filters";
import { formatCount } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { Page } from "../../ui/Page";
import { Age, ShortId, Status, Took } from "../../ui/parts";
import { Empty, Failure, Loading, NeedsScope } from "../../ui/states";
import { NEW, StartDrawer } from "./StartDrawer";

const route = getRouteApi("/evals");

/** How many samples an eval has; of one that lacks some, how many were tried. */
function countSamples({ planned, summary }: EvalRecord): string {
  const missing = (summary?.variants ?? []).reduce((sum, it) => sum + (it.missing ?? 0), 0);
  return missing === 0 ? formatCount(planned) : texts.one.progressOf(planned - missing, planned);
}

const named = texts.columns;
const COLUMNS: readonly DataColumn<EvalRecord>[] = [
  { id: "eval", header: named.eval, cell: (it) => <Link to="/evals/$evalId" params={{ evalId: it.eval_id }}><ShortId id={it.eval_id} chars={20} /></Link>, sortValue: (it) => it.eval_id },
  { id: "dataset", header: named.dataset, cell: (it) => <Link to="/datasets/$datasetId" params={{ datasetId: it.spec.dataset_id }}>{it.spec.dataset_id}</Link>, sortValue: (it) => it.spec.dataset_id },
  { id: "status", header: named.status, cell: (it) => <Status value={it.status} />, sortValue: (it) => it.status },
  { id: "verdict", header: named.verdict, cell: (it) => <Verdicts figures={it.summary} />, sortValue: (it) => it.summary?.gate?.status ?? "" },
  { id: "variants", header: named.variants, cell: (it) => <Text size="sm" lineClamp={2}>{(it.spec.variants ?? []).map((one) => one.name).join(", ") || ui.none}</Text> },
  { id: "mode", header: named.mode, cell: (it) => it.spec.mode ?? "live", sortValue: (it) => it.spec.mode ?? "live" },
  { id: "progress", header: named.progress, cell: (it) => countSamples(it), sortValue: (it) => it.planned, isRight: true },
  { id: "spent", header: named.spent, cell: (it) => describeSpent(it.spent) ?? <Missing>{ui.none}</Missing>, sortValue: (it) => it.spent?.cost_usd ?? it.spent?.tokens ?? null, isRight: true },
  { id: "created", header: named.created, cell: (it) => <Age at={it.created_at} />, sortValue: (it) => it.created_at },
  { id: "took", header: named.took, cell: (it) => <Took from={it.started_at ?? it.created_at} to={it.finished_at} />, isRight: true, isHiddenAtFirst: true },
  { id: "by", header: named.by, cell: (it) => it.created_by ?? ui.none, sortValue: (it) => it.created_by ?? "", isHiddenAtFirst: true },
];

export function EvalsPage() {
  return <NeedsScope scope="config" isOfConfig={false} title={shell.pages.evals}><List /></NeedsScope>;
}

function List() {
  const { new: edited, dataset, draft, status, demo, sort, columns } = route.useSearch();
  const change = useChangeSearch();
  const navigate = useNavigate();
  // The form of a new eval names its dataset in the address too.
  const filter = edited === undefined ? dataset : undefined;
  const list = usePagedList<EvalRecord>(["eval", "pages", filter, status, demo], (cursor, signal) => fetchEvals({ dataset: filter, status, demo }, cursor, signal));
  const { data: datasets = [] } = useQuery(datasetsQuery);
  const start = <GatedButton scope="eval" variant="filled" onClick={() => change({ new: NEW })}>{texts.start.open}</GatedButton>;
  const isFiltered = filter !== undefined || status !== undefined || demo !== undefined;
  const isBlank = list.rows.length === 0 && !isFiltered;
  const actions = <><Button renderRoot={(props) => <Link to="/compare" {...props} />}>{texts.compare}</Button><Button renderRoot={(props) => <Link to="/calibration" {...props} />}>{texts.calibration}</Button></>;
  return (
    <Page title={shell.pages.evals} description={texts.description} actions={actions}>
      {list.isError ? <Failure error={list.error} onRetry={() => void list.refetch()} /> : list.isPending ? <Loading /> : (
        <DataTable
          label={shell.pages.evals} rows={list.rows} columns={COLUMNS} rowId={(it) => it.eval_id} address={{ sort, columns }} onAddress={change}
          hasMore={list.hasNextPage} isLoadingMore={list.isFetchingNextPage} onMore={() => void list.fetchNextPage()}
          onOpen={(it) => void navigate({ to: "/evals/$evalId", params: { evalId: it.eval_id } })}
          selectionActions={(chosen) => {
            const [second, first] = chosen;
            return first !== undefined && second !== undefined && chosen.length === 2 ? <Button variant="filled" onClick={() => void navigate({ to: "/compare", search: { first: first.eval_id, second: second.eval_id } })}>{texts.compareSelected}</Button> : <Text size="sm" c="dimmed">{texts.compareTwo}</Text>;
          }}
          toolbar={isBlank ? undefined : <><Filters values={{ dataset: filter, status, demo }} onChange={change} choices={[{ name: "dataset", label: texts.dataset, options: datasets.map((it) => it.id), width: 180 }, { name: "status", label: texts.status, options: texts.statuses }, WITH_DEMO]} />{start}</>}
          empty={isFiltered ? <Empty title={texts.emptyFiltered} action={<Button onClick={() => change({ dataset: undefined, status: undefined, demo: undefined })}>{ui.clear}</Button>} /> : <Empty title={texts.empty} action={<>{start}<ShowDemo onShow={() => change({ demo: "true" })} /></>} command={texts.command}>{texts.emptyHelp}</Empty>}
        />
      )}
      <StartDrawer isOpen={edited !== undefined} from={edited} dataset={dataset} draft={draft} onClose={() => change({ new: undefined, dataset: undefined, draft: undefined })} />
    </Page>
  );
}
