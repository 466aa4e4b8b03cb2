/**
 * A form for any JSON Schema that the server gives (sections of plugins, records of a namespace). It is loaded when it is first shown.
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
 */
import { lazy, Suspense } from "react";

import { Loading } from "./states";
import type { FieldProblem, JsonObject, JsonSchema } from "./schema/model";

export type SchemaFormProps = {
  /** What the form edits; names it for screen readers. */
  label: string;
  schema: JsonSchema;
  value: JsonObject;
  onChange: (next: JsonObject) => void;
  problems?: readonly FieldProblem[];
  isChecked?: boolean;
  hide?: readonly string[];
  suggestions?: Readonly<Record<string, readonly string[]>>;
  multiline?: readonly string[];
  isDisabled?: boolean;
};

const Form = lazy(() => import("./schema/Form"));

export function SchemaForm(props: SchemaFormProps) {
  return <Suspense fallback={<Loading rows={3} />}><Form {...props} /></Suspense>;
}
