/** Two runs side by side: their figures, and their steps as the server has aligned them; the first difference is marked. */
import { Group, Stack, Table, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import type { Schemas } from "../../api/client";
import { evals as texts } from "../../texts/evals";
import { ValueDiff } from "../FieldDiff";
import { formatDuration, formatTokens } from "../format";
import { ShortId } from "../parts";
import { Tag } from "../Tag";
import classes from "./evals.module.css";
import { Missing } from "./parts";
import { formatUsd } from "./words";

export type RunDiff = Pick<Schemas["RunDiff"], "is_same"> & { before: RunFigures; after: RunFigures; steps: readonly StepDiff[]; state?: readonly Partial<Schemas["StateDiff"]>[]; first?: number | null };
type RunFigures = Partial<Schemas["RunFigures"]> & { run_id: string };
type StepDiff = Partial<Omit<Schemas["StepDiff"], "calls">> & { change: Schemas["StepChange"]; calls?: readonly (Partial<Schemas["CallDiff"]> & { tool: string })[] };

const COLORS = { same: "gray", changed: "blue", added: "green", removed: "red" } as const;

/** The text of an answer: its blocks of text; other blocks stay as they are. */
export function readAnswer(answer: unknown): unknown {
  if (answer == null) return undefined;
  if (!Array.isArray(answer)) return answer;
  const parts = answer as { type?: string; text?: string }[];
  return parts.every((it) => it.type === "text") ? parts.map((it) => it.text ?? "").join("\n") : parts;
}

function FigureRows({ before, after, names }: { before: RunFigures; after: RunFigures; names: { before: string; after: string } }) {
  const rows: [string, (it: RunFigures) => string | null][] = [
    [texts.diff.ended, (it) => it.ended?.replaceAll("_", " ") ?? null], [texts.diff.stepCount, (it) => String(it.steps ?? 0)], [texts.diff.calls, (it) => String(it.calls ?? 0)],
    [texts.diff.tokens, (it) => (it.tokens == null ? null : formatTokens(it.tokens))], [texts.diff.cost, (it) => (it.cost_usd == null ? null : formatUsd(it.cost_usd))], [texts.diff.time, (it) => (it.ms == null ? null : formatDuration(it.ms))],
  ];
  return (
    <div className={classes.scroll} tabIndex={0} role="region" aria-label={texts.diff.figures}>
      <Table verticalSpacing={4}>
        <Table.Thead><Table.Tr><Table.Th>{texts.diff.figures}</Table.Th><Table.Th>{names.before}</Table.Th><Table.Th>{names.after}</Table.Th></Table.Tr></Table.Thead>
        <Table.Tbody>{rows.map(([name, show]) => <Table.Tr key={name}><Table.Th scope="row" fw={400}>{name}</Table.Th>{[before, after].map((it, index) => <Table.Td key={index}>{show(it) ?? <Missing>{texts.notKnown}</Missing>}</Table.Td>)}</Table.Tr>)}</Table.Tbody>
      </Table>
    </div>
  );
}

function StepView({ step, isFirst }: { step: StepDiff; isFirst: boolean }) {
  const [before, after] = [readAnswer(step.answer_before), readAnswer(step.answer_after)];
  return (
    <section className={classes.step} data-first={isFirst || undefined} aria-label={texts.diff.step(step.before ?? null, step.after ?? null)}>
      <Group gap="xs"><Text size="sm" fw={550}>{texts.diff.step(step.before ?? null, step.after ?? null)}</Text><Tag color={COLORS[step.change]}>{texts.diff.steps[step.change]}</Tag>{isFirst ? <Tag color="red">{texts.diff.first}</Tag> : null}</Group>
      {before === undefined && after === undefined ? null : <ValueDiff before={before} after={after} />}
      {(step.calls ?? []).map((it, index) => (
        <div key={index} className={classes.call}>
          <Group gap={6}><Text span size="sm" ff="monospace">{it.tool}</Text><Tag color={COLORS[it.change ?? "changed"]}>{texts.diff.steps[it.change ?? "changed"]}</Tag></Group>
          <ValueDiff before={it.before ?? undefined} after={it.after ?? undefined} />
        </div>
      ))}
    </section>
  );
}

export function RunDiffView({ diff, names = { before: texts.comparing.before, after: texts.comparing.after }, hasLinks = true }: { diff: RunDiff; names?: { before: string; after: string }; hasLinks?: boolean }) {
  return (
    <Stack gap="sm">
      {hasLinks ? <Group gap="lg">{([[names.before, diff.before], [names.after, diff.after]] as const).map(([name, it]) => <Text key={name} size="sm">{name}: <Link to="/runs/$runId" params={{ runId: it.run_id }}><ShortId id={it.run_id} chars={22} /></Link></Text>)}</Group> : null}
      <FigureRows before={diff.before} after={diff.after} names={names} />
      {diff.is_same ? <Text size="sm">{texts.diff.same}</Text> : null}
      <div>{diff.steps.map((it, index) => <StepView key={index} step={it} isFirst={index === diff.first} />)}</div>
      {(diff.state ?? []).length === 0 ? null : <section className={classes.step} aria-label={texts.diff.state}><Text size="sm" fw={550}>{texts.diff.state}</Text>{(diff.state ?? []).map((it) => <div key={it.key}><Text size="xs" c="dimmed">{it.key}</Text><ValueDiff before={it.before ?? undefined} after={it.after ?? undefined} /></div>)}</section>}
    </Stack>
  );
}
