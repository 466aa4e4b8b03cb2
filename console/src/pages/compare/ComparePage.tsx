/** Two evals, or two variants of one, paired by case: the verdict in words, the cases by difference, and two runs side by side. */
import { Alert, Button, Group, List, Select, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";

import { api, need, type Schemas } from "../../api/client";
import { comparisonQuery, evalQuery, figuresQuery, itemsQuery, type Comparison } from "../../api/evals";
import { evals as texts } from "../../texts/evals";
import { useChangeSearch } from "../../ui/address";
import { DataTable, type DataColumn } from "../../ui/DataTable";
import { AllEvals, OlderEvals, useEvalChoice, useEvalName } from "../../ui/evals/EvalChoice";
import { RunDiffView, type RunDiff } from "../../ui/evals/RunDiffView";
import { formatPoints, formatRate } from "../../ui/evals/words";
import { Page } from "../../ui/Page";
import { Panel } from "../../ui/Panel";
import { Empty, Failure, Loading, NeedsScope } from "../../ui/states";
import { ComparisonTable } from "../eval/FigurePanels";

const route = getRouteApi("/compare");
const named = texts.comparing;
type Row = Schemas["CaseDifference"];

type Names = { before: string; after: string };

/** The two sides by their variants; an eval compared with another one may have the same variant on both. */
const nameSides = ({ first, second }: Comparison): Names => (first === second ? { before: named.before, after: named.after } : { before: first, after: second });

const buildColumns = (names: Names, open: (caseId: string) => void): readonly DataColumn<Row>[] => [
  { id: "case", header: texts.one.case, cell: (it) => <Button variant="transparent" px={0} h={24} onClick={() => open(it.case_id)}>{it.case_id}</Button>, sortValue: (it) => it.case_id },
  { id: "first", header: names.before, cell: (it) => formatRate(it.first), sortValue: (it) => it.first, isRight: true },
  { id: "second", header: names.after, cell: (it) => formatRate(it.second), sortValue: (it) => it.second, isRight: true },
  { id: "difference", header: named.difference, cell: (it) => formatPoints(it.difference), sortValue: (it) => it.difference, isRight: true },
];

export function ComparePage() {
  return <NeedsScope scope="config" isOfConfig={false} title={named.title}><Chooser /></NeedsScope>;
}

function Chooser() {
  const { first, second } = route.useSearch();
  const change = useChangeSearch();
  const nameEval = useEvalName();
  const asked = second ?? first;
  const one = useQuery({ ...evalQuery(asked ?? ""), enabled: asked !== undefined });
  const dataset = asked === undefined ? undefined : one.data?.spec.dataset_id;
  // Those of the demo data are offered beside one of them only.
  const choice = useEvalChoice({ dataset, withDemo: one.data?.is_demo === true, chosen: [first, second], isEnabled: asked === undefined || dataset !== undefined });
  const options = choice.ended.map((it) => ({ value: it.eval_id, label: nameEval(it) }));
  const failure = one.error ?? choice.error;
  return (
    <Page title={named.title} description={named.description} actions={<AllEvals />}>
      {failure !== null ? <Failure error={failure} onRetry={() => void (one.error === null ? choice.refetch() : one.refetch())} /> : choice.data === undefined ? <Loading /> : (
        <Stack gap="md">
          <Group gap="sm" align="flex-end">
            <Select label={named.first} placeholder={named.chooseOne} nothingFoundMessage={texts.choice.nothing} data={options} searchable clearable value={first ?? null} w={{ base: "100%", sm: 420 }} onChange={(value) => change({ first: value ?? undefined, case: undefined })} />
            <Select label={named.second} placeholder={named.chooseOne} nothingFoundMessage={texts.choice.nothing} data={options} searchable clearable value={second ?? null} w={{ base: "100%", sm: 420 }} onChange={(value) => change({ second: value ?? undefined, case: undefined })} />
          </Group>
          <OlderEvals choice={choice} />
          {first === undefined || second === undefined ? <Empty title={named.choose} command="awaken eval compare A B" /> : first === second ? <WithinOne evalId={first} /> : <BetweenTwo first={first} second={second} />}
        </Stack>
      )}
    </Page>
  );
}

function WithinOne({ evalId }: { evalId: string }) {
  const { data, error, refetch } = useQuery(figuresQuery(evalId));
  if (error !== null) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Loading />;
  return <Compared comparisons={data.comparisons ?? []} warnings={data.warnings ?? []} first={evalId} second={evalId} />;
}

function BetweenTwo({ first, second }: { first: string; second: string }) {
  const { data, error, refetch } = useQuery(comparisonQuery(first, second));
  if (error !== null) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Loading />;
  return <Compared comparisons={data.comparisons} warnings={data.warnings ?? []} first={first} second={second} />;
}

type ComparedProps = { comparisons: readonly Comparison[]; warnings: readonly string[]; first: string; second: string };

function Compared({ comparisons, warnings, first, second }: ComparedProps) {
  if (comparisons.length === 0) return <Empty title={named.noCases} />;
  return (
    <>
      {warnings.length === 0 ? null : <Alert color="yellow"><List size="sm">{warnings.map((it) => <List.Item key={it}>{it}</List.Item>)}</List></Alert>}
      {comparisons.map((it) => <OneComparison key={`${it.first}/${it.second}`} comparison={it} isOnly={comparisons.length === 1} first={first} second={second} />)}
    </>
  );
}

function OneComparison({ comparison, isOnly, first, second }: { comparison: Comparison; isOnly: boolean; first: string; second: string }) {
  const search = route.useSearch();
  const change = useChangeSearch();
  const scorers = comparison.scorers ?? [];
  const chosen = scorers.find((it) => it.scorer === search.scorer) ?? scorers.find((it) => it.verdict === "worse") ?? scorers.find((it) => (it.difference ?? 0) !== 0) ?? scorers[0];
  const rows = useMemo(() => chosen?.by_case ?? [], [chosen]);
  const columns = useMemo(() => buildColumns(nameSides(comparison), (caseId) => change({ case: caseId })), [comparison, change]);
  // Of several, each part says which it is of.
  const pair = `${comparison.first} → ${comparison.second}`;
  const byCase = isOnly ? named.byCase : `${named.byCase}: ${pair}`;
  const shown = rows.find((it) => it.case_id === search.case);
  return (
    <Stack gap="md">
      <Panel title={`${named.verdict}: ${pair}`}><ComparisonTable comparison={comparison} /></Panel>
      <Panel title={byCase} description={named.worst} actions={<Select aria-label={texts.one.scorerChoice} data={scorers.map((it) => it.scorer)} value={chosen?.scorer ?? null} allowDeselect={false} w={220} onChange={(value) => change({ scorer: value ?? undefined })} />}>
        <DataTable label={texts.tableOf(byCase)} rows={rows} columns={columns} rowId={(it) => it.case_id} address={{}} onAddress={() => undefined} onOpen={(it) => change({ case: it.case_id })} height="40vh" empty={<Text size="sm" c="dimmed">{named.noCases}</Text>} />
      </Panel>
      {shown === undefined ? null : <Panel title={isOnly ? named.transcripts(shown.case_id) : `${named.transcripts(shown.case_id)}, ${pair}`}><SideBySide caseId={shown.case_id} comparison={comparison} first={first} second={second} /></Panel>}
    </Stack>
  );
}

/** The first samples of a case in both, and how their runs differ. */
function SideBySide({ caseId, comparison, first, second }: { caseId: string; comparison: Comparison; first: string; second: string }) {
  const before = useQuery(itemsQuery(first));
  const after = useQuery(itemsQuery(second));
  const find = (items: typeof before.data, variant: string) => items?.find((it) => it.case_id === caseId && it.variant === variant && it.run_id != null)?.run_id ?? null;
  const [a, b] = [find(before.data, comparison.first), find(after.data, comparison.second)];
  const diff = useQuery({
    queryKey: ["eval", "diff", a, b],
    queryFn: async ({ signal }) => (await need(api.GET("/v1/runs/{run_id}/diff/{other_id}", { params: { path: { run_id: a ?? "", other_id: b ?? "" } }, signal }))) as RunDiff,
    enabled: a !== null && b !== null,
    retry: false,
  });
  if (before.data === undefined || after.data === undefined) return <Loading rows={3} />;
  if (a === null || b === null) return <Text size="sm" c="dimmed">{named.noRuns}</Text>;
  if (diff.isError) return <Failure error={diff.error} onRetry={() => void diff.refetch()} />;
  return diff.data === undefined ? <Loading rows={3} /> : <RunDiffView diff={diff.data} names={nameSides(comparison)} />;
}
