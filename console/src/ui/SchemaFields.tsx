/** A small form for a flat JSON Schema: what questions, elicitations and tools' arguments need. */
import { Checkbox, MultiSelect, NumberInput, Select, Stack, Textarea, TextInput } from "@mantine/core";

import type { FieldProblems, FormField } from "./schemaForm";

type Props = {
  fields: readonly FormField[];
  typed: Readonly<Record<string, string>>;
  problems: FieldProblems;
  onChange: (name: string, typed: string) => void;
  /** The label of the only field of a schema that is no object. */
  label: string;
};

const MONO = { input: { fontFamily: "var(--mantine-font-family-monospace)" } };

function readChoices(typed: string): string[] {
  try {
    const value: unknown = JSON.parse(typed === "" ? "[]" : typed);
    return Array.isArray(value) ? value.map((it) => JSON.stringify(it)) : [];
  } catch {
    return [];
  }
}

export function SchemaFields({ fields, typed, problems, onChange, label }: Props) {
  return (
    <Stack gap="xs">
      {fields.map((it) => {
        const value = typed[it.name] ?? "";
        const common = { label: it.label === "" ? label : it.label, description: it.description, error: problems[it.name], withAsterisk: it.isRequired && it.name !== "" };
        const change = (to: string) => onChange(it.name, to);
        switch (it.kind) {
          case "boolean":
            return <Checkbox key={it.name} label={common.label} description={it.description} error={common.error} checked={value === "true"} onChange={(event) => change(String(event.currentTarget.checked))} />;
          case "choice":
            return <Select key={it.name} {...common} data={[...it.options]} value={value === "" ? null : value} onChange={(to) => change(to ?? "")} clearable={!it.isRequired} />;
          case "choices":
            return <MultiSelect key={it.name} {...common} data={[...it.options]} value={readChoices(value)} onChange={(to) => change(`[${to.join(",")}]`)} />;
          case "number":
          case "integer":
            return <NumberInput key={it.name} {...common} value={value} allowDecimal={it.kind === "number"} onChange={(to) => change(String(to))} />;
          case "text":
            return <TextInput key={it.name} {...common} styles={MONO} value={value} onChange={(event) => change(event.currentTarget.value)} />;
          default:
            return <Textarea key={it.name} {...common} value={value} autosize minRows={2} maxRows={16} styles={MONO} onChange={(event) => change(event.currentTarget.value)} />;
        }
      })}
    </Stack>
  );
}
