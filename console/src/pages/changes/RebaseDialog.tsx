/** Resolves what both a draft and others changed: a person chooses for each field. */
import { Button, Group, Modal, SegmentedControl, Stack, Text } from "@mantine/core";
import { useState } from "react";

import { changes as texts } from "../../texts/changes";
import { ui } from "../../texts/ui";
import { FieldDiff } from "../../ui/FieldDiff";
import classes from "../../ui/FieldDiff.module.css";
import type { Conflict } from "./conflicts";

type Side = "mine" | "live";
type Props = { conflicts: readonly Conflict[]; onClose: () => void; onResolve: (chosen: Record<string, Side>) => void };

export function RebaseDialog({ conflicts, onClose, onResolve }: Props) {
  const [chosen, setChosen] = useState<Record<string, Side>>({});
  const isComplete = conflicts.every((it) => chosen[it.path] !== undefined);
  return (
    <Modal opened={conflicts.length > 0} onClose={onClose} title={texts.resolveTitle} size="xl" closeButtonProps={{ "aria-label": ui.close }}>
      <Stack gap="sm">
        <Text size="sm" c="dimmed">{texts.resolveHelp}</Text>
        {conflicts.map((it) => (
          <section key={it.path} className={classes.record} aria-label={it.path}>
            <div className={classes.header}>
              <Text size="sm" fw={550}>{it.path}</Text>
              <SegmentedControl
                ml="auto"
                aria-label={texts.choiceFor(it.path)}
                value={chosen[it.path] ?? ""}
                onChange={(value) => setChosen((now) => ({ ...now, [it.path]: value as Side }))}
                data={[{ value: "mine", label: texts.keepMine }, { value: "live", label: texts.takeTheirs }]}
              />
            </div>
            {it.fields.map((field) => <FieldDiff key={field.path} field={{ ...field, is_conflict: true }} />)}
          </section>
        ))}
        <Group justify="flex-end" gap="xs">
          {isComplete ? null : <Text size="xs" c="dimmed" role="status">{texts.chooseAll}</Text>}
          <Button onClick={onClose}>{ui.cancel}</Button>
          <Button variant="filled" disabled={!isComplete} onClick={() => onResolve(chosen)}>{texts.resolve}</Button>
        </Group>
      </Stack>
    </Modal>
  );
}
