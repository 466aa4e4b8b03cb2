/** Edits the arguments of a call, as JSON or as the form of the tool's schema, with the difference below. */
import { Group, SegmentedControl, Stack, Text, Textarea } from "@mantine/core";
import { lazy, Suspense, useState } from "react";

import { approvals as texts } from "../../texts/approvals";
import { buildValue, readFields, startForm, type FieldProblems, type JsonSchema } from "../../ui/schemaForm";
import { SchemaFields } from "../../ui/SchemaFields";
import { Loading } from "../../ui/states";

const ArgumentsDiff = lazy(() => import("./ArgumentsDiff").then((it) => ({ default: it.ArgumentsDiff })));

/** What the editor has: a value, or nothing while it has a problem. */
export type Edit = { value: unknown; isValid: boolean; isChanged: boolean };
type Props = { original: unknown; schema: JsonSchema | null; onEdit: (edit: Edit) => void };

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

export function EditArguments({ original, schema, onEdit }: Props) {
  const [mode, setMode] = useState<"form" | "json">(schema === null ? "json" : "form");
  const [value, setValue] = useState(original);
  const [text, setText] = useState(() => JSON.stringify(original, null, 2) ?? "null");
  const fields = schema === null ? [] : readFields(schema, original);
  const [typed, setTyped] = useState(() => startForm(fields, original));
  const [problems, setProblems] = useState<FieldProblems>({});

  const accept = (next: unknown) => {
    setValue(next);
    onEdit({ value: next, isValid: true, isChanged: !isSame(next, original) });
  };
  const changeText = (next: string) => {
    setText(next);
    try {
      accept(JSON.parse(next) as unknown);
      setProblems({});
    } catch {
      setProblems({ "": texts.notJson });
      onEdit({ value, isValid: false, isChanged: true });
    }
  };
  const changeField = (name: string, to: string) => {
    const now = { ...typed, [name]: to };
    setTyped(now);
    const built = buildValue(fields, now, original);
    setProblems(built.problems);
    if (Object.keys(built.problems).length === 0) accept(built.value);
    else onEdit({ value, isValid: false, isChanged: true });
  };
  const changeMode = (next: string) => {
    setMode(next === "form" ? "form" : "json");
    setProblems({});
    setText(JSON.stringify(value, null, 2));
    setTyped(startForm(fields, value));
    onEdit({ value, isValid: true, isChanged: !isSame(value, original) });
  };

  return (
    <Stack gap="xs">
      {schema === null ? null : (
        <Group gap="xs">
          <SegmentedControl aria-label={texts.editLabel} value={mode} onChange={changeMode} data={[{ value: "form", label: texts.editAsForm }, { value: "json", label: texts.editAsJson }]} />
        </Group>
      )}
      {mode === "form" ? <SchemaFields fields={fields} typed={typed} problems={problems} onChange={changeField} label={texts.arguments} /> : (
        <Textarea
          label={texts.editedJson} value={text} error={problems[""]} autosize minRows={4} maxRows={24} spellCheck={false} data-autofocus
          styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 12.5 } }}
          onChange={(event) => changeText(event.currentTarget.value)}
        />
      )}
      <Text size="xs" fw={600}>{texts.changes}</Text>
      {isSame(value, original) ? <Text size="sm" c="dimmed">{texts.unchanged}</Text> : (
        <Suspense fallback={<Loading rows={2} />}><ArgumentsDiff before={original} after={value} /></Suspense>
      )}
      <Text size="xs" c="dimmed">{texts.notSame}</Text>
    </Stack>
  );
}
