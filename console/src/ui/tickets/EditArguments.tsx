/** Edits the arguments of a call, as JSON or as the form of the tool's schema, with the difference below. */
import { Group, SegmentedControl, Stack, Text, Textarea } from "@mantine/core";
import { Suspense, useRef } from "react";

import type { Ticket } from "../../api/decisions";
import { approvals as texts } from "../../texts/approvals";
import { isObject, type Json, type JsonSchema } from "../schema/model";
import { SchemaForm } from "../SchemaForm";
import { lazyPart } from "../loadPart";
import { Loading } from "../states";
import { changeText, isChanged, writeArguments, type Edit } from "./work";

const TextDiff = lazyPart(() => import("../TextDiff"));

type Props = { ticket: Ticket; edit: Edit; schema: JsonSchema | null; onEdit: (edit: Edit) => void };

export function EditArguments({ ticket, edit, schema, onEdit }: Props) {
  const original = ticket.arguments ?? null;
  const hasForm = schema !== null && isObject(original);
  const isForm = hasForm && edit.mode === "form";
  // A field that becomes valid reports its value first, and then that its text is good.
  const latest = useRef(edit);
  latest.current = edit;
  const note = (change: Partial<Edit>) => {
    latest.current = { ...latest.current, ...change };
    onEdit(latest.current);
  };
  return (
    <Stack gap="xs">
      {hasForm ? (
        <Group gap="xs">
          <SegmentedControl
            aria-label={texts.editLabel} value={edit.mode} data={[{ value: "form", label: texts.editAsForm }, { value: "json", label: texts.editAsJson }]}
            onChange={(next) => note({ mode: next === "form" ? "form" : "json", text: writeArguments(edit.value), isBad: false })}
          />
        </Group>
      ) : null}
      {isForm ? <SchemaForm label={texts.arguments} schema={schema} value={isObject(edit.value) ? edit.value : {}} onChange={(value) => note({ value: value as Json })} onBadText={(isBad) => note({ isBad })} /> : (
        <Textarea
          label={texts.editedJson} value={edit.text} error={edit.isBad ? texts.notJson : undefined} autosize minRows={4} maxRows={24} spellCheck={false} data-autofocus
          styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 12.5 } }}
          onChange={(event) => onEdit(changeText(edit, event.currentTarget.value))}
        />
      )}
      <Text size="xs" fw={600}>{texts.changes}</Text>
      {!isChanged(ticket, { ...edit, isBad: false }) ? <Text size="sm" c="dimmed">{texts.unchanged}</Text> : (
        <Suspense fallback={<Loading rows={2} />}><TextDiff label={texts.changes} before={writeArguments(original)} after={writeArguments(edit.value)} /></Suspense>
      )}
      <Text size="xs" c="dimmed">{texts.notSame}</Text>
    </Stack>
  );
}
