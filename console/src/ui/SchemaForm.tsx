/**
 * A form for any JSON Schema that the server gives (sections of plugins, records, arguments of tools, answers to questions). It is loaded when it is first shown.
 *
 *     <SchemaForm label="Provider" schema={schema} value={spec} onChange={setSpec} problems={problemsBelow(error.problems, "providers/openai")} hide={["id"]} />
 *
 * - `value` is the whole object; `onChange` gets a changed copy. Fields that the schema does not know survive. A field that is emptied becomes `null`
 *   where the schema allows that, else it goes away, so that the server's standard holds.
 * - `problems` are shown at their field; their paths begin at this form (`problemsBelow` of `./schema/model` cuts the server's). With `isChecked` the
 *   browser checks the value against the schema too.
 * - `hide` names fields at the top that the page edits elsewhere; fields that the server only sends (`readOnly`) are hidden anyway.
 * - `suggestions` are values offered for a field, by its name or its path with a star for list items: `{ model_id: ["fast"], tool: tools }`.
 * - `multiline` names fields that hold long texts.
 * - `onBadText` hears whether some field holds a text that is no JSON: the value is then older than what is shown.
 *
 * `ValueForm` is the same for a schema of any type; one that is no object is a single field.
 */
import { Textarea } from "@mantine/core";
import { Component, Suspense, useState, type ReactNode } from "react";

import { parseExact, writeExact } from "../api/exactJson";
import { forms } from "../texts/forms";
import { Loading } from "./states";
import { isObject, type FieldProblem, type Json, type JsonObject, type JsonSchema } from "./schema/model";
import { lazyPart } from "./loadPart";

type Common = {
  /** What the form edits; names it for screen readers. */
  label: string;
  schema: JsonSchema;
  problems?: readonly FieldProblem[];
  isChecked?: boolean;
  hide?: readonly string[];
  suggestions?: Readonly<Record<string, readonly string[]>>;
  multiline?: readonly string[];
  isDisabled?: boolean;
  onBadText?: (isBad: boolean) => void;
};
export type ValueFormProps = Common & { value: Json | undefined; onChange: (next: Json | undefined) => void };
export type SchemaFormProps = Common & { value: JsonObject; onChange: (next: JsonObject) => void };

const Form = lazyPart(() => import("./schema/Form"));

/** The value as JSON, for a schema of which no form can be made. */
function PlainForm({ label, value, problems = [], isDisabled, onChange, onBadText }: ValueFormProps) {
  const [text, setText] = useState(() => (value === undefined ? "" : (writeExact(value, 2) ?? "")));
  const [isBad, setIsBad] = useState(false);
  const note = (is: boolean) => { setIsBad(is); onBadText?.(is); };
  const change = (next: string) => {
    setText(next);
    try {
      onChange(next.trim() === "" ? undefined : (parseExact(next, true) as Json));
      note(false);
    } catch {
      note(true);
    }
  };
  const error = isBad ? forms.badJson : problems.map((it) => `${it.path} ${it.message}`.trim()).join(" ");
  return <Textarea label={label} description={forms.noForm} disabled={isDisabled} value={text} error={error === "" ? undefined : error} autosize minRows={3} maxRows={16} spellCheck={false} onChange={(event) => change(event.currentTarget.value)} />;
}

/** A schema comes from a tool, which may be hostile: one that breaks the form must not take the page with it. */
class FormBoundary extends Component<{ fallback: ReactNode; children: ReactNode }, { isBroken: boolean }> {
  override state = { isBroken: false };

  static getDerivedStateFromError(): { isBroken: boolean } {
    return { isBroken: true };
  }

  override render(): ReactNode {
    return this.state.isBroken ? this.props.fallback : this.props.children;
  }
}

export function ValueForm(props: ValueFormProps) {
  return (
    <FormBoundary fallback={<PlainForm {...props} />}>
      <Suspense fallback={<Loading rows={3} />}><Form {...props} /></Suspense>
    </FormBoundary>
  );
}

export function SchemaForm({ onChange, ...props }: SchemaFormProps) {
  return <ValueForm {...props} onChange={(next) => onChange(isObject(next) ? next : {})} />;
}
