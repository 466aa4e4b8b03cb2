/** Labels what a judge has scored, by keyboard; how far the judge agrees is shown beside it at once. */
import { Button, Group, SegmentedControl, Select, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { addLabel, calibrationQuery, datasetQuery, itemsQuery, labelsQuery, readInput, type Calibration, type EvalItem, type EvalRecord } from "../../api/evals";
import { useKeys } from "../../keys";
import { evals as texts } from "../../texts/evals";
import { useChangeSearch } from "../../ui/address";
import { AllEvals, OlderEvals, useEvalChoice, useEvalName } from "../../ui/evals/EvalChoice";
import classes from "../../ui/evals/evals.module.css";
import { Missing } from "../../ui/evals/parts";
import { formatRate } from "../../ui/evals/words";
import { GatedButton } from "../../ui/GatedButton";
import { noteError } from "../../ui/notices";
import { Page } from "../../ui/Page";
import { Figure, Figures } from "../../ui/Panel";
import { SafeText } from "../../ui/SafeText";
import { Empty, Failure, Loading, NeedsScope } from "../../ui/states";
import { Tag } from "../../ui/Tag";

const route = getRouteApi("/calibration");
const named = texts.calibrating;

export function CalibrationPage() {
  return <NeedsScope scope="config" isOfConfig={false} title={named.title}><Chooser /></NeedsScope>;
}

function Chooser() {
  const search = route.useSearch();
  const change = useChangeSearch();
  const nameEval = useEvalName();
  const choice = useEvalChoice({ chosen: [search.eval] });
  const judged = useMemo(() => choice.ended.flatMap((it) => {
    const scorers = [...new Set((it.summary?.variants ?? []).flatMap((one) => (one.scorers ?? []).filter((scorer) => scorer.is_judged === true).map((scorer) => scorer.scorer)))];
    return scorers.length === 0 ? [] : [{ id: it.eval_id, record: it, scorers }];
  }), [choice.ended]);
  const chosen = judged.find((it) => it.id === search.eval) ?? judged.find((it) => search.scorer === undefined || it.scorers.includes(search.scorer));
  const scorer = chosen?.scorers.find((it) => it === search.scorer) ?? chosen?.scorers[0];
  return (
    <Page title={named.title} description={named.description} actions={<AllEvals />}>
      {choice.isError ? <Failure error={choice.error} onRetry={() => void choice.refetch()} /> : choice.data === undefined ? <Loading /> : chosen === undefined || scorer === undefined ? (
        <Empty title={choice.hasNextPage ? named.noneJudged(choice.rows.length) : named.noJudged} action={choice.hasNextPage ? <OlderEvals choice={choice} /> : undefined} command="awaken eval calibrate JUDGE">{named.noJudgedHelp}</Empty>
      ) : (
        <Stack gap="md">
          <Group gap="sm" align="flex-end">
            <Select label={named.judge} data={chosen.scorers} allowDeselect={false} value={scorer} w={220} onChange={(value) => change({ scorer: value ?? undefined })} />
            <Select label={named.eval} data={judged.map((it) => ({ value: it.id, label: nameEval(it.record) }))} searchable nothingFoundMessage={texts.choice.nothing} allowDeselect={false} value={chosen.id} w={{ base: "100%", sm: 420 }} onChange={(value) => change({ eval: value ?? undefined })} />
          </Group>
          <OlderEvals choice={choice} />
          <Agreement scorer={scorer} />
          <Labels key={`${chosen.id}/${scorer}`} record={chosen.record} scorer={scorer} />
        </Stack>
      )}
    </Page>
  );
}

function WithInterval({ value, interval, show }: { value: number | null | undefined; interval: Calibration["kappa_interval"]; show: (value: number) => string }) {
  if (value == null) return <Missing>{texts.notKnown}</Missing>;
  return <>{show(value)}{interval == null ? null : <Text size="xs" c="dimmed" fw={400}>{texts.interval(show(interval.low), show(interval.high))}</Text>}</>;
}

function Agreement({ scorer }: { scorer: string }) {
  const { data, error, refetch } = useQuery(calibrationQuery(scorer));
  if (error !== null) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Loading rows={2} />;
  const plain = (it: number) => it.toFixed(2);
  return (
    <div>
      <Figures>
        <Figure name={named.labels}><span role="status">{data.labels ?? 0}</span></Figure>
        <Figure name={named.kappa}><WithInterval value={data.kappa} interval={data.kappa_interval} show={plain} /></Figure>
        <Figure name={named.agreement}><WithInterval value={data.agreement} interval={data.agreement_interval} show={formatRate} /></Figure>
        <Figure name={named.falsePass}><WithInterval value={data.false_pass} interval={data.false_pass_interval} show={formatRate} /></Figure>
        <Figure name={named.falseFail}><WithInterval value={data.false_fail} interval={data.false_fail_interval} show={formatRate} /></Figure>
        <Figure name={named.consistency}><WithInterval value={data.self_consistency} interval={null} show={formatRate} /></Figure>
      </Figures>
      <Text size="sm" mt="xs">{data.is_calibrated === true ? <Tag color="green">{named.calibrated}</Tag> : <><Tag color="yellow">{named.uncalibratedTag}</Tag> {named.uncalibrated(data.labels ?? 0)}</>}</Text>
    </div>
  );
}

type Judged = { item: EvalItem; runId: string; says: boolean; label: boolean | undefined };

function useJudged(evalId: string, scorer: string) {
  const items = useQuery(itemsQuery(evalId));
  const labels = useQuery(labelsQuery(scorer));
  const rows = useMemo(() => {
    const known = new Map<string, boolean>();
    // Newest first: what a person said last counts.
    for (const it of labels.data ?? []) if (!known.has(it.run_id)) known.set(it.run_id, it.score.passed === true);
    return (items.data ?? []).flatMap((item): Judged[] => {
      const score = item.scores.find((it) => it.name === scorer);
      return score?.value == null || item.run_id == null ? [] : [{ item, runId: item.run_id, says: score.passed === true, label: known.get(item.run_id) }];
    });
  }, [items.data, labels.data, scorer]);
  return { rows, error: items.error ?? labels.error, isPending: items.data === undefined || labels.data === undefined };
}

function Labels({ record, scorer }: { record: EvalRecord; scorer: string }) {
  const { show } = route.useSearch();
  const change = useChangeSearch();
  const { rows, error, isPending } = useJudged(record.eval_id, scorer);
  // What was asked: an answer alone cannot be judged. A dataset that was deleted tells it no more.
  const dataset = useQuery({ ...datasetQuery(record.spec.dataset_id, record.revision), retry: false });
  const [at, setAt] = useState(0);
  // Only the one that is being labelled waits: the next may be labelled as soon as it is shown.
  const [busy, setBusy] = useState<string | null>(null);
  const isAll = show === "all";
  const open = rows.filter((it) => it.label === undefined);
  // One that was just labelled stays until the next one is asked for.
  const listed = isAll ? rows : open;
  const current = listed[Math.min(at, listed.length - 1)];
  const asked = dataset.data?.cases.find((it) => it.id === current?.item.case_id);
  const move = (by: number) => setAt((now) => Math.max(0, Math.min(listed.length - 1, Math.min(now, listed.length - 1) + by)));
  const label = async (passed: boolean) => {
    if (current === undefined || busy === current.runId) return;
    const { runId } = current;
    setBusy(runId);
    try {
      await addLabel(runId, scorer, passed);
      if (isAll) move(1);
    } catch (caught) {
      noteError(caught);
    } finally {
      setBusy((now) => (now === runId ? null : now));
    }
  };
  useKeys({ down: () => move(1), up: () => move(-1), labelPass: () => void label(true), labelFail: () => void label(false) });
  if (error !== null) return <Failure error={error} />;
  if (isPending) return <Loading rows={4} />;
  return (
    <Stack gap="sm">
      <Group gap="sm">
        <SegmentedControl aria-label={named.show} value={isAll ? "all" : "open"} onChange={(value) => { setAt(0); change({ show: value === "all" ? "all" : undefined }); }} data={[{ value: "open", label: `${named.unlabelled} (${open.length})` }, { value: "all", label: `${named.all} (${rows.length})` }]} />
        {listed.length === 0 ? null : <Text size="sm" c="dimmed" role="status">{`${Math.min(at, listed.length - 1) + 1} / ${listed.length}`}</Text>}
      </Group>
      {current === undefined ? <Text size="sm" c="dimmed">{named.noRows}</Text> : (
        <section className={classes.step} aria-label={current.item.case_id}>
          <Group justify="space-between" mb="xs"><Text size="sm" fw={550}>{current.item.case_id} · {current.item.variant}</Text>{current.label === undefined ? null : <Tag color={current.label ? "green" : "red"}>{named.youSay}: {current.label ? named.passed : named.failed}</Tag>}</Group>
          {asked === undefined ? null : <><Text size="xs" c="dimmed">{named.input}</Text><SafeText text={readInput(asked)} label={named.input} maxHeight={160} /></>}
          <div className={classes.sides}>
            <div className={classes.side}><Text size="xs" c="dimmed">{named.answer}</Text>{current.item.text === undefined || current.item.text === "" ? <Text size="sm" c="dimmed">{texts.item.noAnswer}</Text> : <SafeText text={current.item.text} label={named.answer} maxHeight={360} />}</div>
            <div className={classes.side}><Text size="xs" c="dimmed">{named.judgeSays}</Text>{current.label === undefined ? <Text size="sm" c="dimmed" fs="italic">{named.hidden}</Text> : <Text size="sm"><Tag color={current.says ? "green" : "red"}>{current.says ? named.passed : named.failed}</Tag> {current.item.scores.find((it) => it.name === scorer)?.reason}</Text>}</div>
          </div>
          <Group gap="xs" mt="sm"><GatedButton scope="eval" variant="filled" loading={busy === current.runId} onClick={() => void label(true)}>{named.passed} (p)</GatedButton><GatedButton scope="eval" loading={busy === current.runId} onClick={() => void label(false)}>{named.failed} (f)</GatedButton><Button variant="subtle" onClick={() => move(1)}>{named.next} (j)</Button><Button variant="subtle" ml="auto" renderRoot={(props) => <Link to="/runs/$runId" params={{ runId: current.runId }} {...props} />}>{texts.item.run}</Button></Group>
        </section>
      )}
    </Stack>
  );
}
