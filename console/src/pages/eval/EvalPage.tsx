/** One eval: how far it is, what it cost, what its figures and its gate say, and every sample. */
import { Alert, Button, Group, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";

import { cancelEval, evalQuery, figuresQuery, isOpen, itemsQuery, type EvalRecord } from "../../api/evals";
import { isGone } from "../../api/errors";
import { demo } from "../../texts/demo";
import { evals as texts } from "../../texts/evals";
import { ui } from "../../texts/ui";
import { useConfirm } from "../../ui/confirm";
import { addSpent, isMissing } from "../../ui/evals/cells";
import { Missing, Verdicts } from "../../ui/evals/parts";
import { useEvalStream } from "../../ui/evals/useEvalStream";
import { describeBudget, describeSpent, formatUsd } from "../../ui/evals/words";
import { formatCount, formatTokens } from "../../ui/format";
import { GatedButton } from "../../ui/GatedButton";
import { noteDone, noteError } from "../../ui/notices";
import { Page } from "../../ui/Page";
import { Figure, Figures } from "../../ui/Panel";
import { Age, CopyableId, Status, Took } from "../../ui/parts";
import { Empty, Failure, Loading, NeedsScope } from "../../ui/states";
import { Comparisons, GatePanel, VariantTable } from "./FigurePanels";
import { ItemMatrix } from "./ItemMatrix";

const route = getRouteApi("/evals/$evalId");

export function EvalPage() {
  const { evalId } = route.useParams();
  return <NeedsScope scope="config" isOfConfig={false} title={texts.one.title}><Loaded evalId={evalId} /></NeedsScope>;
}

function Loaded({ evalId }: { evalId: string }) {
  const { data, error, refetch } = useQuery(evalQuery(evalId));
  const all = <Button variant="subtle" renderRoot={(props) => <Link to="/evals" {...props} />}>{texts.one.all}</Button>;
  if (isGone(error)) return <Page title={texts.one.title} actions={all}><Empty title={texts.one.notFound} /></Page>;
  if (data === undefined) return <Page title={texts.one.title} actions={all}>{error === null ? <Loading /> : <Failure error={error} onRetry={() => void refetch()} />}</Page>;
  return <EvalView record={data} />;
}

function useCancel(record: EvalRecord): () => Promise<void> {
  const confirm = useConfirm();
  return async () => {
    if (!(await confirm({ title: texts.one.cancelTitle, body: texts.one.cancelBody, confirm: texts.one.cancel, isDangerous: true }))) return;
    try {
      await cancelEval(record.eval_id);
      noteDone(texts.one.cancelled);
    } catch (error) {
      noteError(error);
    }
  };
}

function EvalView({ record }: { record: EvalRecord }) {
  const navigate = useNavigate();
  const isLive = isOpen(record);
  const items = useQuery(itemsQuery(record.eval_id));
  const figures = useQuery(figuresQuery(record.eval_id));
  const cancel = useCancel(record);
  useEvalStream(record.eval_id, isLive);
  const found = items.data ?? [];
  const spent = useMemo(() => (isLive || record.spent === undefined ? addSpent(items.data ?? []) : record.spent), [isLive, record.spent, items.data]);
  const { spec } = record;
  const cap = describeBudget(spec.budget);
  const missing = found.filter(isMissing).length + (isLive ? 0 : Math.max(0, record.planned - found.length));
  // A sample that was cut is not one that was tried: while the eval goes on, both are behind it.
  const tried = isLive ? found.length : found.filter((it) => !isMissing(it)).length;
  const failed = found.filter((it) => it.status === "failed" || it.status === "diverged" || it.status === "timeout").length;
  const actions = (
    <>
      <Button variant="subtle" renderRoot={(props) => <Link to="/evals" {...props} />}>{texts.one.all}</Button>
      {isLive ? <GatedButton scope="eval" onClick={() => void cancel()}>{texts.one.cancel}</GatedButton> : null}
      <GatedButton scope="eval" reason={record.is_demo === true ? demo.only : undefined} onClick={() => void navigate({ to: "/evals", search: { new: record.eval_id } })}>{texts.one.again}</GatedButton>
      <Button renderRoot={(props) => <Link to="/compare" search={{ second: record.eval_id, first: spec.baseline ?? undefined }} {...props} />}>{texts.one.compareWith}</Button>
    </>
  );
  const description = <Group gap="xs" component="span"><Status value={record.status} /><Link to="/datasets/$datasetId" params={{ datasetId: spec.dataset_id }}>{texts.one.revision(spec.dataset_id, record.revision)}</Link><span>·</span><span>{spec.mode ?? "live"}</span><span>·</span><Age at={record.created_at} />{isLive ? null : <Verdicts figures={figures.data} />}</Group>;
  return (
    <Page title={<>{texts.one.title} <CopyableId id={record.eval_id} chars={22} /></>} name={`${texts.one.title} ${record.eval_id}`} description={description} actions={actions}>
      <Stack gap="md">
        {record.problem == null ? null : <Alert color="red">{record.problem}</Alert>}
        {record.status === "incomplete" ? <Alert color="yellow">{texts.one.incomplete}</Alert> : null}
        <Figures>
          <Figure name={texts.one.progress}><span role="status">{texts.one.progressOf(tried, record.planned)}</span></Figure>
          <Figure name={texts.one.failed}>{formatCount(failed)}</Figure>
          <Figure name={texts.one.missing}>{formatCount(missing)}</Figure>
          <Figure name={cap === null ? `${texts.one.spent} (${texts.one.noCap})` : `${texts.one.spent} ${texts.one.cap(cap)}`} help={texts.one.spentHelp}>{spent.cost_usd == null ? describeSpent(spent) ?? <Missing>{texts.notKnown}</Missing> : formatUsd(spent.cost_usd)}</Figure>
          {spent.cost_usd == null || spent.tokens == null ? null : <Figure name={texts.one.tokens}>{formatTokens(spent.tokens)}</Figure>}
          <Figure name={texts.one.took}><Took from={record.started_at ?? record.created_at} to={record.finished_at} isFigure /></Figure>
          <Figure name={texts.one.repeats}>{spec.repeats ?? ui.none}</Figure>
        </Figures>
        {figures.isError ? <Failure error={figures.error} onRetry={() => void figures.refetch()} /> : figures.data === undefined ? <Loading rows={3} /> : (
          <>
            <GatePanel gate={figures.data.gate} />
            <VariantTable figures={figures.data} order={(spec.variants ?? []).map((it) => it.name)} isLive={isLive} />
            <Comparisons comparisons={figures.data.comparisons ?? []} warnings={figures.data.warnings ?? []} evalId={record.eval_id} />
          </>
        )}
        {items.isError ? <Failure error={items.error} onRetry={() => void items.refetch()} /> : items.data === undefined ? <Loading rows={3} /> : <ItemMatrix record={record} items={items.data} />}
      </Stack>
    </Page>
  );
}
