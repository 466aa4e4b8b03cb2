/** The filters of a list; what is chosen stands in the address. */
import { Button, Group, Select, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconSearch, IconX } from "@tabler/icons-react";
import { useEffect, useState } from "react";

import { demo } from "../texts/demo";
import { ui } from "../texts/ui";

type Choice = { name: string; label: string; options: readonly (string | { value: string; label: string })[]; width?: number };
type Props<Values extends Record<string, string | undefined>> = {
  values: Values;
  onChange: (change: Partial<Values>) => void;
  choices?: readonly Choice[];
  /** The name of the value that a text field searches for, and the field's placeholder. */
  text?: { name: string; placeholder: string };
};

const TYPING_MS = 250;

/** Whether a list shows demo data as well. */
export const WITH_DEMO = { name: "demo", label: demo.filter, options: [{ value: "true", label: demo.withDemo }], width: 150 };

export function Filters<Values extends Record<string, string | undefined>>({ values, onChange, choices = [], text }: Props<Values>) {
  const given = text === undefined ? "" : (values[text.name] ?? "");
  const [typed, setTyped] = useState(given);
  useEffect(() => setTyped(given), [given]);
  const change = (name: string, value: string | null) => onChange({ [name]: value === null || value === "" ? undefined : value } as Partial<Values>);
  const changeLater = useDebouncedCallback((value: string) => change(text?.name ?? "", value), TYPING_MS);
  const names = [...choices.map((it) => it.name), ...(text === undefined ? [] : [text.name])];
  const isFiltered = names.some((it) => values[it] !== undefined);
  return (
    <Group gap="xs">
      {text === undefined ? null : (
        <TextInput
          data-page-filter
          aria-label={text.placeholder}
          placeholder={text.placeholder}
          leftSection={<IconSearch size={14} />}
          value={typed}
          w={220}
          onChange={(event) => { setTyped(event.currentTarget.value); changeLater(event.currentTarget.value); }}
        />
      )}
      {choices.map((it) => (
        <Select
          key={it.name}
          aria-label={it.label}
          placeholder={it.label}
          data={[...it.options]}
          value={values[it.name] ?? null}
          onChange={(value) => change(it.name, value)}
          clearable
          searchable={it.options.length > 8}
          w={it.width ?? 140}
        />
      ))}
      {isFiltered ? <Button variant="subtle" leftSection={<IconX size={13} />} onClick={() => onChange(Object.fromEntries(names.map((it) => [it, undefined])) as Partial<Values>)}>{ui.clear}</Button> : null}
    </Group>
  );
}
