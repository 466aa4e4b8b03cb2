/** The samples of a small eval in a list, as they come: what each answered, called, and how it was scored. */
import { Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { evalQuery, isOpen, itemsQuery, type EvalItem, type Score } from "../../api/evals";
import { evals as texts } from "../../texts/evals";
import { SafeText } from "../SafeText";
import { Failure, Loading } from "../states";
import { Tag } from "../Tag";
import { judgeItem } from "./cells";
import classes from "./evals.module.css";
import { Missing } from "./parts";
import { useEvalStream } from "./useEvalStream";
import { formatRate } from "./words";

const COLORS = { passed: "green", failed: "red", partly: "yellow", missing: "gray", open: "gray" } as const;

/** One score: its value or why it has none. */
export function ScoreLine({ score }: { score: Score }) {
  const look = score.error != null || score.value == null ? "partly" : score.passed === false ? "failed" : "passed";
  return (
    <Text size="sm" component="div" style={{ overflowWrap: "anywhere" }}>
      <Tag color={COLORS[look]}>{look === "partly" ? texts.item.notScored : texts.one.dots[look]}</Tag> {score.name}{" "}
      {score.value == null ? <Missing /> : <Text span size="xs" c="dimmed">{formatRate(score.value)}</Text>}
      {score.reason == null || score.reason === "" ? null : <Text span size="sm"> · {score.reason}</Text>}
      {score.error == null ? null : <Text span size="sm"> · {score.error}</Text>}
      {(score.judge?.run_ids ?? []).map((runId) => <Text span size="sm" key={runId}> · <Link to="/runs/$runId" params={{ runId }} style={{ textDecoration: "underline" }}>{texts.item.judge}</Link></Text>)}
    </Text>
  );
}

export function Sample({ item }: { item: EvalItem }) {
  const look = judgeItem(item);
  return (
    <section className={classes.step} aria-label={texts.one.openSample(item.variant, item.sample + 1, texts.one.dots[look])}>
      <Text size="sm" fw={550} component="div"><Tag color={COLORS[look]}>{item.status === "scored" ? texts.one.dots[look] : item.status.replaceAll("_", " ")}</Tag> {texts.openSample(item.sample + 1)}{item.calls === undefined || item.calls.length === 0 ? null : ` · ${item.calls.join(" → ")}`}</Text>
      {item.text === undefined || item.text === "" ? null : <SafeText text={item.text} label={texts.item.answer} maxHeight={160} />}
      <Stack gap={2} mt={4}>{item.scores.map((it) => <ScoreLine key={it.name} score={it} />)}</Stack>
      {item.error == null ? null : <Text size="sm" mt={4}>{item.error}</Text>}
    </section>
  );
}

export function Samples({ evalId }: { evalId: string }) {
  const record = useQuery(evalQuery(evalId));
  const items = useQuery(itemsQuery(evalId));
  useEvalStream(evalId, record.data !== undefined && isOpen(record.data));
  if (record.isError) return <Failure error={record.error} onRetry={() => void record.refetch()} />;
  if (record.data === undefined || items.data === undefined) return <Loading rows={2} />;
  return (
    <div role="status">
      {items.data.map((it) => <Sample key={it.number} item={it} />)}
      {isOpen(record.data) ? <Loading rows={1} /> : record.data.problem == null ? null : <Text size="sm">{record.data.problem}</Text>}
    </div>
  );
}
