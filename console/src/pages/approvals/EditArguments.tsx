/** Edits the arguments of a call, as JSON or as the form of the tool's schema, with the difference below. */
import { Group, SegmentedControl, Stack, Text, Textarea } from "@mantine/core";
import { Suspense, useRef, useState } from "react";

import { isSame } from "../../api/changes";
import { approvals as texts } from "../../texts/approvals";
import { lazyPart } from "../../ui/loadPart";
import { isObject, type Json, type JsonSchema } from "../../ui/schema/model";
import { SchemaForm } from "../../ui/SchemaForm";
import { Loading } from "../../ui/states";

const TextDiff = lazyPart(() => import("../../ui/TextDiff"));

/** What the editor has: a value, or nothing while it has a problem. */
export type Edit = { value: unknown; isValid: boolean; isChanged: boolean };
type Props = { original: unknown; schema: JsonSchema | null; onEdit: (edit: Edit) => void };

function write(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? "null";
}

export function EditArguments({ original, schema, onEdit }: Props) {
  const hasForm = schema !== null && isObject(original);
  const [mode, setMode] = useState<"form" | "json">(hasForm ? "form" : "json");
  const [value, setValue] = useState(original as Json);
  const [text, setText] = useState(() => write(original));
  const [isBad, setIsBad] = useState(false);

  // A field that becomes valid reports its value first, and then that its text is good.
  const latest = useRef(value);
  const note = (isWrong: boolean, next: Json = latest.current) => {
    latest.current = next;
    setValue(next);
    setIsBad(isWrong);
    onEdit({ value: next, isValid: !isWrong, isChanged: isWrong || !isSame(next, original as Json) });
  };
  const changeText = (next: string) => {
    setText(next);
    try {
      note(false, JSON.parse(next) as Json);
    } catch {
      note(true);
    }
  };
  const changeMode = (next: string) => {
    setMode(next === "form" ? "form" : "json");
    setText(write(value));
    note(false);
  };

  return (
    <Stack gap="xs">
      {hasForm ? (
        <Group gap="xs">
          <SegmentedControl aria-label={texts.editLabel} value={mode} onChange={changeMode} data={[{ value: "form", label: texts.editAsForm }, { value: "json", label: texts.editAsJson }]} />
        </Group>
      ) : null}
      {mode === "form" && hasForm ? <SchemaForm label={texts.arguments} schema={schema} value={isObject(value) ? value : {}} onChange={(next) => note(isBad, next)} onBadText={note} /> : (
        <Textarea
          label={texts.editedJson} value={text} error={isBad ? texts.notJson : undefined} autosize minRows={4} maxRows={24} spellCheck={false} data-autofocus
          styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 12.5 } }}
          onChange={(event) => changeText(event.currentTarget.value)}
        />
      )}
      <Text size="xs" fw={600}>{texts.changes}</Text>
      {isSame(value, original as Json) ? <Text size="sm" c="dimmed">{texts.unchanged}</Text> : (
        <Suspense fallback={<Loading rows={2} />}><TextDiff label={texts.changes} before={write(original)} after={write(value)} /></Suspense>
      )}
      <Text size="xs" c="dimmed">{texts.notSame}</Text>
    </Stack>
  );
}
