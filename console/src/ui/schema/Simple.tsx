/** Fields of one value: texts, numbers, choices, and JSON for what no other field can edit. */
import { Autocomplete, JsonInput, MultiSelect, PasswordInput, Select, Switch, TagsInput, Textarea, TextInput } from "@mantine/core";
import { useEffect, useState, type ReactNode } from "react";

import { ExactNumber, parseExact, writeExact } from "../../api/exactJson";
import { forms } from "../../texts/forms";
import { FractionInput } from "../FractionInput";
import { fromLocalField, toLocalField } from "../localTime";
import { useSettings } from "../settings";
import { useForm, useProblem, useSuggestions } from "./context";
import { findChoice, readChoice, showFallback, type Field, type Json, type Path } from "./model";

export type SimpleProps = { field: Field; value: Json | undefined; path: Path; label: string; isRequired: boolean };

function useCommon({ field, path, label, isRequired }: SimpleProps) {
  const { isDisabled, change } = useForm();
  const error: ReactNode = useProblem(path);
  return {
    shared: { label, description: field.description, error, required: isRequired, withAsterisk: isRequired, disabled: isDisabled || field.isReadOnly, placeholder: showFallback(field.fallback) },
    set: (next: Json) => change(path, next),
    // What is emptied is null where the schema has it; else the server's standard holds.
    clear: () => change(path, field.isNullable ? null : undefined),
  };
}

const LONG_CHARS = 80;

export function TextField(props: SimpleProps & { field: Extract<Field, { kind: "text" }> }) {
  const { field, value, path, isRequired } = props;
  const { shared, set, clear } = useCommon(props);
  const { multiline } = useForm();
  const suggestions = useSuggestions(path);
  const text = typeof value === "string" ? value : "";
  const change = (next: string) => (next === "" && !isRequired ? clear() : set(next));
  if (field.isSecret) {
    return <PasswordInput {...shared} size="xs" description={forms.secretKept} placeholder={forms.secretPlaceholder} value={text} autoComplete="new-password" onChange={(event) => (event.currentTarget.value === "" ? clear() : set(event.currentTarget.value))} />;
  }
  if (suggestions !== undefined) return <Autocomplete {...shared} size="xs" data={[...suggestions]} value={text} onChange={change} />;
  const isLong = multiline.includes(String(path.at(-1))) || text.length > LONG_CHARS || text.includes("\n");
  if (isLong) return <Textarea {...shared} autosize minRows={3} maxRows={16} value={text} onChange={(event) => change(event.currentTarget.value)} />;
  return <TextInput {...shared} value={text} onChange={(event) => change(event.currentTarget.value)} />;
}

/** Milliseconds since the epoch as a date and a time, in the zone that the person has chosen. */
function TimeField(props: SimpleProps) {
  const { value } = props;
  const { timeZone } = useSettings();
  const { shared, set, clear } = useCommon(props);
  const change = (text: string) => {
    const at = fromLocalField(text, timeZone);
    if (at === undefined) clear();
    else set(Number(at));
  };
  return <TextInput {...shared} placeholder={undefined} type="datetime-local" value={toLocalField(typeof value === "number" ? String(value) : undefined, timeZone)} onChange={(event) => change(event.currentTarget.value)} />;
}

export function NumberField(props: SimpleProps & { field: Extract<Field, { kind: "number" }> }) {
  return props.field.isTime ? <TimeField {...props} /> : <PlainNumberField {...props} />;
}

function PlainNumberField(props: SimpleProps & { field: Extract<Field, { kind: "number" }> }) {
  const { field, value } = props;
  const { shared, set, clear } = useCommon(props);
  const change = (next: number | string) => {
    if (typeof next === "number") set(next);
    // The input gives a number that JavaScript would round as its text.
    else if (/^-?\d+(\.\d+)?$/.test(next)) set(new ExactNumber(next) as unknown as Json);
    else clear();
  };
  return (
    <FractionInput
      {...shared}
      value={typeof value === "number" ? value : value instanceof ExactNumber ? value.text : ""}
      allowDecimal={!field.isInteger}
      min={field.minimum}
      max={field.maximum}
      clampBehavior="none"
      hideControls
      onChange={(next) => change(next)}
    />
  );
}

export function BooleanField(props: SimpleProps & { field: Extract<Field, { kind: "boolean" }> }) {
  const { field, value } = props;
  const { shared, set, clear } = useCommon(props);
  if (field.isNullable) {
    const { required: _required, ...rest } = shared;
    return (
      <Select {...rest} placeholder={forms.unset} clearable data={[{ value: "true", label: forms.yes }, { value: "false", label: forms.no }]} value={typeof value === "boolean" ? String(value) : null}
        onChange={(next) => (next === null ? clear() : set(next === "true"))} />
    );
  }
  const isOn = typeof value === "boolean" ? value : field.fallback === true;
  return <Switch label={shared.label} description={shared.description} error={shared.error} disabled={shared.disabled} checked={isOn} onChange={(event) => set(event.currentTarget.checked)} />;
}

export function ChoiceField(props: SimpleProps & { field: Extract<Field, { kind: "choice" }> }) {
  const { field, value, isRequired } = props;
  const { shared, set, clear } = useCommon(props);
  return (
    <Select
      {...shared}
      data={field.options.map((it, index) => ({ value: String(index), label: it.label }))}
      value={findChoice(field.options, value)}
      placeholder={shared.placeholder === undefined ? forms.unset : forms.standard(shared.placeholder)}
      clearable={!isRequired}
      allowDeselect={!isRequired}
      onChange={(next) => (next === null ? clear() : set(readChoice(field.options, next)))}
    />
  );
}

function asTexts(value: Json | undefined): string[] {
  return Array.isArray(value) ? (value as Json[]).filter((it) => typeof it === "string") : [];
}

export function TextsField(props: SimpleProps & { field: Extract<Field, { kind: "texts" | "choices" }> }) {
  const { field, value, path, isRequired } = props;
  const { shared, set, clear } = useCommon(props);
  const suggestions = useSuggestions(path);
  const given = asTexts(value ?? (field.kind === "choices" ? field.fallback : undefined));
  const change = (next: string[]) => (next.length === 0 && !isRequired && field.isNullable ? clear() : set(next));
  if (field.kind === "choices") return <MultiSelect {...shared} data={field.options.map((it) => ({ value: String(it.value), label: it.label }))} value={given} onChange={change} />;
  return <TagsInput {...shared} size="xs" data={[...(suggestions ?? [])]} value={given} onChange={change} />;
}

/** The text stays as typed; the value follows whenever it is valid JSON. */
export function JsonField(props: SimpleProps) {
  const { value, path } = props;
  const { noteText } = useForm();
  const { shared, set, clear } = useCommon(props);
  const given = value === undefined ? "" : (writeExact(value, 2) ?? "");
  const [text, setText] = useState(given);
  const [isBad, setIsBad] = useState(false);
  const setBad = (is: boolean) => { setIsBad(is); noteText(path, is); };
  useEffect(() => {
    setText((now) => {
      try {
        return writeExact(parseExact(now, true), 2) === given ? now : given;
      } catch {
        return now === "" ? given : now;
      }
    });
  }, [given]);
  const change = (next: string) => {
    setText(next);
    if (next.trim() === "") { clear(); setBad(false); return; }
    try {
      set(parseExact(next, true) as Json);
      setBad(false);
    } catch {
      setBad(true);
    }
  };
  return <JsonInput {...shared} size="xs" autosize minRows={2} maxRows={16} spellCheck={false} value={text} onChange={change} error={shared.error ?? (isBad ? forms.badJson : undefined)} />;
}
