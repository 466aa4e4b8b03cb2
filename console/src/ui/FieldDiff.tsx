/** Changes of records, field by field: values side by side, texts by line, and the three versions where both sides changed one. */
import { Group, Skeleton, Stack, Text } from "@mantine/core";
import { Suspense, type ReactNode } from "react";

import { diffs } from "../texts/diffs";
import { isCompareByLine, writeValue, type FieldChange, type RecordChange } from "./compare";
import classes from "./FieldDiff.module.css";
import { Tag, type TagColor } from "./Tag";
import { lazyPart } from "./loadPart";

const TextDiff = lazyPart(() => import("./TextDiff"));

const COLORS: Record<RecordChange["state"], TagColor> = { same: "gray", added: "green", changed: "blue", deleted: "red", theirs: "gray", conflict: "red" };

function Value({ value, look }: { value: unknown; look: "old" | "new" }) {
  if (value === undefined) return <span className={classes.absent}>{diffs.absent}</span>;
  return <span className={classes[look]}>{value === "" ? "“”" : writeValue(value)}</span>;
}

/** How one value became another. */
export function ValueDiff({ before, after }: { before: unknown; after: unknown }) {
  if (!isCompareByLine(before, after)) {
    return (
      <div className={classes.values}>
        <Value value={before} look="old" /><span aria-label={diffs.to} role="img">→</span><Value value={after} look="new" />
      </div>
    );
  }
  return <Suspense fallback={<Skeleton height={60} mt={4} />}><TextDiff before={writeValue(before)} after={writeValue(after)} /></Suspense>;
}

/** One field. In a conflict each side is compared with what both began with, so that neither hides the other. */
export function FieldDiff({ field }: { field: FieldChange }) {
  return (
    <div className={classes.field}>
      <Group gap={8}>
        <span className={classes.path}>{field.path === "" ? diffs.whole : field.path}</span>
        {field.is_conflict === true ? <Tag color="red">{diffs.conflict}</Tag> : null}
      </Group>
      {field.is_conflict === true ? (
        <Stack gap={4} mt={4}>
          <Text size="xs" c="dimmed">{diffs.live}</Text><ValueDiff before={field.base} after={field.live} />
          <Text size="xs" c="dimmed">{diffs.mine}</Text><ValueDiff before={field.base} after={field.mine} />
        </Stack>
      ) : <ValueDiff before={field.live} after={field.mine} />}
    </div>
  );
}

/** One record. `label` names it where the page shows the record in two places. */
export function RecordDiff({ record, link, actions, label }: { record: RecordChange; link?: ReactNode; actions?: ReactNode; label?: string }) {
  return (
    <section className={classes.record} aria-label={label ?? `${record.ns}/${record.id}`}>
      <div className={classes.header}>
        <Text fw={550} size="sm" component="h3">{link ?? `${record.ns}/${record.id}`}</Text>
        <Tag color={COLORS[record.state]}>{diffs.states[record.state]}</Tag>
        {actions === undefined ? null : <Group gap={4} ml="auto">{actions}</Group>}
      </div>
      {(record.fields ?? []).map((it) => <FieldDiff key={it.path} field={it} />)}
    </section>
  );
}
