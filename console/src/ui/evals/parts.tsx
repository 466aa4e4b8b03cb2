/** Small parts of datasets, evals and replays: rates with intervals, verdicts, facts. What is missing is shown as missing. */
import { Text } from "@mantine/core";
import { IconAlertTriangle, IconArrowDownRight, IconArrowUpRight, IconCheck, IconEqual, IconHelp, IconX } from "@tabler/icons-react";
import type { ReactNode } from "react";

import type { Figures, Gate, Interval, ScorerComparison } from "../../api/evals";
import { evals as texts } from "../../texts/evals";
import { Tag, type TagColor } from "../Tag";
import classes from "./evals.module.css";
import { formatPoints, formatRate } from "./words";

export function Facts({ facts }: { facts: readonly (readonly [string, ReactNode])[] }) {
  return <dl className={classes.facts}>{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

export function Missing({ children = texts.missing }: { children?: ReactNode }) {
  return <Text span size="sm" c="dimmed" fs="italic">{children}</Text>;
}

const WIDTH = 72;

function Band({ from, to, low, high, at }: { from: number; to: number; low: number; high: number; at: number }) {
  const place = (value: number) => 2 + ((Math.min(to, Math.max(from, value)) - from) / (to - from)) * (WIDTH - 4);
  return (
    <svg className={classes.track} viewBox={`0 0 ${WIDTH} 14`} aria-hidden>
      <line className={classes.line} x1={2} x2={WIDTH - 2} y1={7} y2={7} />
      <rect className={classes.band} x={place(low)} width={Math.max(2, place(high) - place(low))} y={4} height={6} rx={2} />
      {from < 0 ? <line className={classes.zero} x1={place(0)} x2={place(0)} y1={1} y2={13} /> : null}
      <circle className={classes.point} cx={place(at)} cy={7} r={3} />
    </svg>
  );
}

/** A rate from 0 to 1 with its interval. */
export function Rate({ value, interval }: { value: number | null | undefined; interval: Interval | null | undefined }) {
  if (value == null) return <Missing />;
  return (
    <span className={classes.bar} title={texts.intervalHelp}>
      <Band from={0} to={1} at={value} low={interval?.low ?? value} high={interval?.high ?? value} />
      <Text span size="sm">{formatRate(value)}{interval == null ? null : <Text span size="xs" c="dimmed"> {texts.interval(formatRate(interval.low), formatRate(interval.high))}</Text>}</Text>
    </span>
  );
}

/** How far the second lies above the first, with the interval of it. */
export function Difference({ value, interval }: { value: number | null | undefined; interval: Interval | null | undefined }) {
  if (value == null) return <Missing>{texts.comparing.noDifference}</Missing>;
  return (
    <span className={classes.bar} title={texts.intervalHelp}>
      <Band from={-1} to={1} at={value} low={interval?.low ?? value} high={interval?.high ?? value} />
      <Text span size="sm">{formatPoints(value)}{interval == null ? null : <Text span size="xs" c="dimmed"> {texts.interval(formatPoints(interval.low), formatPoints(interval.high))}</Text>}</Text>
    </span>
  );
}

const VERDICTS: Record<ScorerComparison["verdict"], { color: TagColor; icon: typeof IconCheck }> = {
  better: { color: "green", icon: IconArrowUpRight }, worse: { color: "red", icon: IconArrowDownRight }, same: { color: "gray", icon: IconEqual }, undecided: { color: "yellow", icon: IconHelp },
};

export function Verdict({ verdict, label }: { verdict: ScorerComparison["verdict"]; label?: string }) {
  const { color, icon: Icon } = VERDICTS[verdict];
  return <Tag color={color} icon={<Icon size={12} aria-hidden />}>{label === undefined ? texts.verdicts[verdict] : `${label}: ${texts.verdicts[verdict]}`}</Tag>;
}

const GATES: Record<Gate["status"], { color: TagColor; icon: typeof IconCheck }> = { passed: { color: "green", icon: IconCheck }, failed: { color: "red", icon: IconX }, undecided: { color: "yellow", icon: IconAlertTriangle } };

export function GateTag({ status, label }: { status: Gate["status"]; label?: string }) {
  const { color, icon: Icon } = GATES[status];
  return <Tag color={color} icon={<Icon size={12} aria-hidden />}>{label ?? texts.gates[status]}</Tag>;
}

/** The gate and the verdicts of an eval, worst first, as far as there are any. */
export function Verdicts({ figures }: { figures: Figures | undefined }) {
  const order = ["worse", "undecided", "better", "same"] as const;
  const found = (figures?.comparisons ?? []).flatMap((it) => (it.scorers ?? []).map((scorer) => scorer.verdict));
  const verdict = order.find((it) => found.includes(it));
  if (figures?.gate == null && verdict === undefined) return <Text span size="sm" c="dimmed">{texts.noVerdict}</Text>;
  return <span className={classes.dots} style={{ gap: 6 }}>{figures?.gate == null ? null : <GateTag status={figures.gate.status} />}{verdict === undefined ? null : <Verdict verdict={verdict} />}</span>;
}
