/** Two people changed the same thing: what it was, what they saved, what this page has; a person chooses where both changed a field. */
import { Badge, Button, Code, Group, Modal, SegmentedControl, Stack, Text } from "@mantine/core";
import { Suspense, useMemo, useState } from "react";

import { merge as texts } from "../../texts/merge";
import { ui } from "../../texts/ui";
import { isSame } from "../../api/drafts";
import { writeValue } from "../compare";
import { lazyPart } from "../loadPart";
import type { JsonObject } from "../schema/model";
import { compareVersions, mergeVersions, type FieldVersions, type Side } from "./merge";
import classes from "./merge.module.css";

const TextDiff = lazyPart(() => import("../TextDiff"));

/** What both began with, what another person saved, and what this page has. */
export type Versions = { base: JsonObject; theirs: JsonObject; mine: JsonObject };

type Props = {
  title: string;
  versions: Versions;
  onResolve: (merged: JsonObject) => void;
  /** What the button says, if what was merged is not saved at once. */
  apply?: string;
  /** Goes back to what was typed; without it a choice must be made. */
  onCancel?: () => void;
};

export function MergeDialog({ title, versions, onResolve, apply = texts.apply, onCancel }: Props) {
  const { base, theirs, mine } = versions;
  const [choices, setChoices] = useState<Readonly<Record<string, Side>>>({});
  const fields = useMemo(() => compareVersions(base, theirs, mine), [base, theirs, mine]);
  const isDone = fields.every((it) => !it.isClash || choices[it.path] !== undefined);
  return (
    <Modal opened onClose={() => undefined} withCloseButton={false} closeOnEscape={false} closeOnClickOutside={false} title={title} size="xl">
      <Stack gap="sm">
        <Text size="sm" c="dimmed">{texts.help}</Text>
        {fields.map((it) => <FieldChoice key={it.path} field={it} choice={choices[it.path]} onChoose={(side) => setChoices((now) => ({ ...now, [it.path]: side }))} />)}
        <Group justify="flex-end" gap="xs">{onCancel === undefined ? null : <Button onClick={onCancel}>{ui.cancel}</Button>}<Button variant="filled" disabled={!isDone} onClick={() => onResolve(mergeVersions(base, theirs, mine, (path) => choices[path] ?? "mine"))}>{apply}</Button></Group>
      </Stack>
    </Modal>
  );
}

function FieldChoice({ field, choice, onChoose }: { field: FieldVersions; choice: Side | undefined; onChoose: (side: Side) => void }) {
  const isText = typeof field.theirs === "string" && typeof field.mine === "string";
  const state = field.isClash ? texts.both : isSame(field.base, field.mine) ? texts.onlyTheirs : texts.onlyMine;
  return (
    <div className={classes.choice} role="group" aria-label={field.path}>
      <Group justify="space-between" gap="xs" mb={6}>
        <Group gap="xs"><Text size="sm" ff="monospace" fw={500}>{field.path}</Text><Badge variant="outline" color={field.isClash ? "red" : "gray"} c="inherit">{state}</Badge></Group>
        {field.isClash ? <SegmentedControl aria-label={field.path} value={choice ?? ""} onChange={(side) => onChoose(side as Side)} data={[{ value: "theirs", label: texts.theirs }, { value: "mine", label: texts.mine }]} /> : null}
      </Group>
      {field.isClash ? (
        <>
          <div className={classes.versions}>
            {(["base", "theirs", "mine"] as const).map((side) => <div key={side}><Text size="xs" c="dimmed">{texts[side]}</Text><Code block tabIndex={0} mah={160} style={{ overflow: "auto", whiteSpace: "pre-wrap" }}>{field[side] === undefined ? texts.absent : writeValue(field[side])}</Code></div>)}
          </div>
          {isText ? <Suspense fallback={ui.none}><Text size="xs" c="dimmed" mt={6}>{texts.diff}</Text><TextDiff label={texts.diff} before={String(field.theirs)} after={String(field.mine)} /></Suspense> : null}
        </>
      ) : <Text size="xs" lineClamp={2}>{writeValue(isSame(field.base, field.mine) ? field.theirs : field.mine)}</Text>}
    </div>
  );
}
