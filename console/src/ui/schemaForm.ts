/** The fields of a form for a flat JSON Schema, and the value that they make. Pure. What a field cannot hold is typed as JSON. */

export type JsonSchema = Readonly<Record<string, unknown>>;
export type FieldKind = "text" | "longText" | "number" | "integer" | "boolean" | "choice" | "choices" | "json";
export type FormField = {
  /** The name of the property; "" when the whole value is one field. */
  name: string;
  label: string;
  description: string | null;
  kind: FieldKind;
  isRequired: boolean;
  options: readonly { value: string; label: string }[];
  default: unknown;
};
export type FieldProblems = Readonly<Record<string, string>>;

const LONG_TEXT = 120;

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function readOptions(schema: JsonSchema): { value: string; label: string }[] {
  if (Array.isArray(schema.enum)) {
    const names = Array.isArray(schema.enumNames) ? schema.enumNames : [];
    return schema.enum.map((it: unknown, index) => ({ value: JSON.stringify(it), label: String(names[index] ?? it) }));
  }
  const alternatives = schema.oneOf ?? schema.anyOf;
  if (!Array.isArray(alternatives) || !alternatives.every((it) => isObject(it) && "const" in it)) return [];
  return alternatives.map((it: Record<string, unknown>) => ({ value: JSON.stringify(it.const), label: String(it.title ?? it.const) }));
}

/** A schema without its "or null", which an empty field says. */
function withoutNull(schema: JsonSchema): JsonSchema {
  if (Array.isArray(schema.type)) return { ...schema, type: schema.type.find((it) => it !== "null") };
  if (!Array.isArray(schema.anyOf)) return schema;
  const others = schema.anyOf.filter((it) => isObject(it) && it.type !== "null");
  return others.length === 1 && isObject(others[0]) ? { ...schema, anyOf: undefined, ...others[0] } : schema;
}

function readField(name: string, given: JsonSchema, isRequired: boolean, value: unknown): FormField {
  const schema = withoutNull(given);
  const items = isObject(schema.items) ? schema.items : {};
  const options = readOptions(schema.type === "array" ? items : schema);
  const isLong = typeof value === "string" && (value.length > LONG_TEXT || value.includes("\n"));
  const kinds: Record<string, FieldKind> = { string: isLong ? "longText" : "text", number: "number", integer: "integer", boolean: "boolean" };
  const kind = schema.type === "array" ? (options.length > 0 ? "choices" : "json") : options.length > 0 ? "choice" : (kinds[String(schema.type)] ?? "json");
  return {
    name, kind, isRequired, options,
    label: typeof schema.title === "string" ? schema.title : name,
    description: typeof schema.description === "string" ? schema.description : null,
    default: schema.default,
  };
}

/** The fields of a schema, in its order; of an object one for each property, else one for the whole value. */
export function readFields(schema: JsonSchema, value: unknown): FormField[] {
  if (!isObject(schema.properties)) return [readField("", schema, true, value)];
  const required = Array.isArray(schema.required) ? schema.required : [];
  const now = isObject(value) ? value : {};
  return Object.entries(schema.properties).map(([name, it]) => readField(name, isObject(it) ? it : {}, required.includes(name), now[name]));
}

/** What a field shows of a value: a text for every kind but those with a tick or several choices. */
export function showValue(field: FormField, value: unknown): string {
  if (value === undefined) return field.default === undefined ? "" : showValue({ ...field, default: undefined }, field.default);
  if (field.kind === "choice") return JSON.stringify(value);
  if (field.kind === "json" || typeof value === "object") return JSON.stringify(value, null, 2);
  return String(value);
}

/** The value of what was typed; throws a text for people. An empty optional field has none. */
export function parseField(field: FormField, typed: string): unknown {
  if (typed === "" && field.kind !== "text" && field.kind !== "longText") {
    if (field.isRequired) throw new Error("This is needed.");
    return undefined;
  }
  switch (field.kind) {
    case "text":
    case "longText":
      return typed === "" && !field.isRequired ? undefined : typed;
    case "number":
    case "integer": {
      const number = Number(typed);
      if (!Number.isFinite(number)) throw new Error("This is no number.");
      if (field.kind === "integer" && !Number.isInteger(number)) throw new Error("This needs a whole number.");
      return number;
    }
    case "boolean":
      return typed === "true";
    default:
      try {
        return JSON.parse(typed) as unknown;
      } catch {
        throw new Error("This is no JSON.");
      }
  }
}

/** The value of a form; properties that it has no field for stay. Problems stand under their field's name. */
export function buildValue(fields: readonly FormField[], typed: Readonly<Record<string, string>>, before: unknown): { value: unknown; problems: FieldProblems } {
  const problems: Record<string, string> = {};
  const whole = fields[0];
  const kept: Record<string, unknown> = isObject(before) ? { ...before } : {};
  let value: unknown = kept;
  for (const field of fields) {
    try {
      const parsed = parseField(field, typed[field.name] ?? "");
      if (whole?.name === "") value = parsed;
      else if (parsed === undefined) delete kept[field.name];
      else kept[field.name] = parsed;
    } catch (error) {
      problems[field.name] = error instanceof Error ? error.message : String(error);
    }
  }
  return { value, problems };
}

export function startForm(fields: readonly FormField[], value: unknown): Record<string, string> {
  const now = isObject(value) ? value : {};
  return Object.fromEntries(fields.map((it) => [it.name, showValue(it, it.name === "" ? value : now[it.name])]));
}
