/** The form behind `SchemaForm`. */
import { Box, Stack, Text } from "@mantine/core";
import { useMemo } from "react";

import { forms } from "../../texts/forms";
import type { SchemaFormProps } from "../SchemaForm";
import { Context, type FormContext } from "./context";
import { ObjectFields } from "./Compound";
import { describeField, isObject, setAt } from "./model";
import { validateValue } from "./validate";

const NONE = [] as const;

export default function Form({ label, schema, value, onChange, problems = NONE, isChecked = false, hide = NONE, suggestions = {}, multiline = NONE, isDisabled = false }: SchemaFormProps) {
  const field = useMemo(() => describeField(schema, schema), [schema]);
  const all = useMemo(() => (isChecked ? [...problems, ...validateValue(schema, value)] : problems), [isChecked, problems, schema, value]);
  const context: FormContext = {
    root: schema,
    problems: all,
    suggestions,
    multiline,
    isDisabled,
    change: (path, next) => {
      const changed = setAt(value, path, next);
      onChange(isObject(changed) ? changed : {});
    },
  };
  if (field.kind !== "object" || field.properties.length === 0) return <Text c="dimmed" size="sm">{forms.noFields}</Text>;
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
