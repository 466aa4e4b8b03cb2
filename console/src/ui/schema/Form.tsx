/** The form behind `SchemaForm` and `ValueForm`. */
import { Box, Stack, Text } from "@mantine/core";
import { useMemo, useRef } from "react";

import { forms } from "../../texts/forms";
import type { ValueFormProps } from "../SchemaForm";
import { Context, type FormContext } from "./context";
import { ObjectFields, SchemaField } from "./Compound";
import { describeField, setAt } from "./model";
import { validateValue } from "./validate";

const NONE = [] as const;

export default function Form({ label, schema, value, onChange, problems = NONE, isChecked = false, hide = NONE, suggestions = {}, multiline = NONE, isDisabled = false, onBadText }: ValueFormProps) {
  const field = useMemo(() => describeField(schema, schema), [schema]);
  const all = useMemo(() => (isChecked ? [...problems, ...validateValue(schema, value)] : problems), [isChecked, problems, schema, value]);
  const bad = useRef(new Set<string>());
  const context: FormContext = {
    root: schema,
    problems: all,
    suggestions,
    multiline,
    isDisabled,
    change: (path, next) => onChange(setAt(value, path, next)),
    noteText: (path, isBad) => {
      if (isBad === bad.current.has(path.join("/"))) return;
      if (isBad) bad.current.add(path.join("/"));
      else bad.current.delete(path.join("/"));
      onBadText?.(bad.current.size > 0);
    },
  };
  if (field.kind === "object" && field.properties.length === 0) return <Text c="dimmed" size="sm">{forms.noFields}</Text>;
  if (field.kind !== "object") return <Context value={context}><SchemaField schema={schema} value={value} path={[]} label={label} isRequired /></Context>;
  const general = all.filter((it) => it.path === "");
  return (
    <Context value={context}>
      <Stack gap="sm" role="group" aria-label={label}>
        {general.length === 0 ? null : <Box role="alert">{general.map((it) => <Text key={it.message} size="sm" c="var(--mantine-color-error)">{it.message}</Text>)}</Box>}
        <ObjectFields properties={field.properties.filter((it) => !hide.includes(it.name))} value={value} path={[]} />
      </Stack>
    </Context>
  );
}
