/** What a form shows for a JSON Schema, and how a value changes by it. Pure: it knows what msgspec emits, and shows the rest as JSON. */

import { ExactNumber } from "../../api/exactJson";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type JsonObject = { readonly [name: string]: Json };
export type JsonSchema = { readonly [keyword: string]: unknown };
/** The way from the root of a value to a part of it. */
export type Path = readonly (string | number)[];
/** What is wrong at a path, whose parts are separated by slashes. */
export type FieldProblem = { path: string; message: string };

/** One of the values that a field can have, and what it is called. */
export type Choice = { value: Json; label: string };

type Common = { description?: string; fallback?: Json; isNullable: boolean; isReadOnly: boolean };
export type Property = { name: string; schema: JsonSchema; isRequired: boolean };
export type Field = Common &
  (
    | { kind: "text"; pattern?: string; isSecret: boolean }
    | { kind: "number"; isInteger: boolean; /** Milliseconds since the epoch, which people read as a date and a time. */ isTime: boolean; minimum?: number; maximum?: number }
    | { kind: "boolean" }
    | { kind: "choice"; options: readonly Choice[] }
    | { kind: "choices"; options: readonly Choice[] }
    | { kind: "texts" }
    | { kind: "list"; items: JsonSchema }
    | { kind: "object"; properties: readonly Property[] }
    | { kind: "map"; values: JsonSchema }
    | { kind: "union"; variants: readonly { label: string; schema: JsonSchema }[] }
    | { kind: "json" }
  );

export function isObject(value: unknown): value is JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof ExactNumber);
}

/** A field of an object itself: a schema may name one `constructor` or `__proto__`, which every object has from elsewhere. */
export function getOwn<T>(fields: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

function setOwn(fields: Record<string, Json>, name: string, value: Json): void {
  Object.defineProperty(fields, name, { value, enumerable: true, writable: true, configurable: true });
}

/** The alternatives of a schema; a hostile schema may have anything there. */
function listAlternatives(schema: JsonSchema): JsonSchema[] | undefined {
  const given = schema.anyOf ?? schema.oneOf;
  return Array.isArray(given) ? given.map(asSchema) : undefined;
}

/** What the format of a number of milliseconds since the epoch is called. */
export const TIME_FORMAT = "unix-ms";

/** A schema that names itself is followed this far. */
const MAX_DEPTH = 20;

function asSchema(value: unknown): JsonSchema {
  return value !== null && typeof value === "object" ? (value as JsonSchema) : {};
}

/** Follows `$ref`s; what stands beside one (a default, a description) wins over what it names. */
export function resolveSchema(schema: JsonSchema, root: JsonSchema): JsonSchema {
  let found = schema;
  for (let depth = 0; typeof found.$ref === "string" && depth < MAX_DEPTH; depth += 1) {
    const { $ref, ...beside } = found;
    const parts = ($ref as string).replace(/^#\/?/, "").split("/").filter((it) => it !== "");
    const target = parts.reduce<JsonSchema>((now, part) => asSchema(getOwn(now, part.replaceAll("~1", "/").replaceAll("~0", "~"))), root);
    found = { ...target, ...beside };
  }
  return found;
}

function isNull(schema: JsonSchema): boolean {
  return schema.type === "null" || ("const" in schema && schema.const === null);
}

/** Takes `null` out of a schema: whether it was there, and what is left. */
function splitNull(schema: JsonSchema, root: JsonSchema, depth = 0): { schema: JsonSchema; isNullable: boolean } {
  if (Array.isArray(schema.type)) {
    const rest = schema.type.filter((it) => it !== "null");
    return { schema: { ...schema, type: rest.length === 1 ? rest[0] : rest }, isNullable: rest.length < schema.type.length };
  }
  const alternatives = listAlternatives(schema);
  if (alternatives === undefined || depth > MAX_DEPTH) return { schema, isNullable: false };
  const rest = alternatives.filter((it) => !isNull(resolveSchema(it, root)));
  const isNullable = rest.length < alternatives.length;
  const { anyOf: _any, oneOf: _one, ...beside } = schema;
  const [only] = rest;
  if (rest.length !== 1 || only === undefined) return { schema: { ...beside, anyOf: rest }, isNullable };
  const inner = splitNull({ ...resolveSchema(only, root), ...beside }, root, depth + 1);
  return { schema: inner.schema, isNullable: isNullable || inner.isNullable };
}

const SECRET_NAME = "$secret";

/** A text that is never shown, or a reference to one. */
function isSecret(schema: JsonSchema): boolean {
  return schema.writeOnly === true && listAlternatives(schema)?.some((it) => isObject(it.properties) && Object.hasOwn(it.properties, SECRET_NAME)) === true;
}

function labelVariant(schema: JsonSchema, index: number): string {
  const tag = isObject(schema.properties) ? asSchema(getOwn(schema.properties, "type")) : {};
  const constant = "const" in tag ? tag.const : (tag.enum as Json[] | undefined)?.[0];
  if (typeof constant === "string") return constant.replaceAll("_", " ");
  if (typeof schema.title === "string") return schema.title.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
  if (Array.isArray(schema.enum)) return schema.enum.map(String).join(", ");
  return typeof schema.type === "string" ? { string: "text", array: "list", object: "fields" }[schema.type] ?? schema.type : `form ${index + 1}`;
}

function listProperties(schema: JsonSchema): Property[] {
  const required = Array.isArray(schema.required) ? (schema.required as string[]) : [];
  return Object.entries(asSchema(schema.properties)).map(([name, it]) => ({ name, schema: asSchema(it), isRequired: required.includes(name) }));
}

/** The values of an `enum`, a `const`, or of alternatives that are constants; null for any other schema. */
function readChoices(schema: JsonSchema): Choice[] | null {
  if ("const" in schema) return [{ value: schema.const as Json, label: nameChoice(schema.title ?? schema.const) }];
  if (Array.isArray(schema.enum)) {
    const names = Array.isArray(schema.enumNames) ? (schema.enumNames as unknown[]) : [];
    return (schema.enum as Json[]).map((value, index) => ({ value, label: nameChoice(names[index] ?? value) }));
  }
  const alternatives = listAlternatives(schema);
  if (alternatives === undefined || alternatives.length === 0 || !alternatives.every((it) => "const" in it)) return null;
  return alternatives.flatMap((it) => readChoices(it) ?? []);
}

function nameChoice(name: unknown): string {
  return String(name).replaceAll("_", " ");
}

function readArray(schema: JsonSchema, root: JsonSchema): Pick<Extract<Field, { kind: "choices" }>, "kind" | "options"> | { kind: "texts" } | { kind: "list"; items: JsonSchema } {
  const items = resolveSchema(asSchema(schema.items), root);
  const options = readChoices(items);
  if (options !== null && options.every((it) => typeof it.value === "string")) return { kind: "choices", options };
  return items.type === "string" ? { kind: "texts" } : { kind: "list", items };
}

/** The key of a value among the options: their places, because `null` and "null" read the same. */
export function findChoice(options: readonly Choice[], value: Json | undefined): string | null {
  const at = options.findIndex((it) => it.value === value);
  return at === -1 ? null : String(at);
}

export function readChoice(options: readonly Choice[], key: string): Json {
  return options[Number(key)]?.value ?? null;
}

/** Which field edits values of a schema. */
export function describeField(given: JsonSchema, root: JsonSchema): Field {
  const whole = resolveSchema(given, root);
  const secret = isSecret(whole);
  const { schema, isNullable } = splitNull(whole, root);
  const common: Common = {
    description: typeof schema.description === "string" ? schema.description : undefined,
    fallback: whole.default as Json | undefined,
    isNullable,
    isReadOnly: schema.readOnly === true || schema.deprecated === true,
  };
  if (secret) return { ...common, kind: "text", isSecret: true };
  const options = readChoices(schema);
  if (options !== null) return { ...common, kind: "choice", options };
  if (Array.isArray(schema.anyOf)) {
    const variants = schema.anyOf.map((it) => resolveSchema(asSchema(it), root));
    return { ...common, kind: "union", variants: variants.map((it, index) => ({ label: labelVariant(it, index), schema: it })) };
  }
  switch (schema.type) {
    case "string":
      return { ...common, kind: "text", isSecret: schema.writeOnly === true, pattern: schema.pattern as string | undefined };
    case "integer":
    case "number":
      return { ...common, kind: "number", isInteger: schema.type === "integer", isTime: schema.format === TIME_FORMAT, minimum: schema.minimum as number | undefined, maximum: schema.maximum as number | undefined };
    case "boolean":
      return { ...common, kind: "boolean" };
    case "array":
      return { ...common, ...readArray(schema, root) };
    case "object":
      if (schema.properties !== undefined) return { ...common, kind: "object", properties: listProperties(schema) };
      if (isObject(schema.additionalProperties)) return { ...common, kind: "map", values: schema.additionalProperties };
      return { ...common, kind: "json" };
    default:
      return { ...common, kind: "json" };
  }
}

/** The least value that a field can begin with, when a person adds it. */
export function makeValue(schema: JsonSchema, root: JsonSchema, depth = 0): Json {
  if (depth > MAX_DEPTH) return null;
  const field = describeField(schema, root);
  if (field.fallback !== undefined && field.fallback !== null) return field.fallback;
  switch (field.kind) {
    case "text": return "";
    case "number": return field.minimum ?? 0;
    case "boolean": return false;
    case "choice": return field.options[0]?.value ?? null;
    case "choices": case "texts": case "list": return [];
    case "map": case "json": return {};
    case "object":
      return Object.fromEntries(field.properties.filter((it) => it.isRequired).map((it) => [it.name, makeValue(it.schema, root, depth + 1)]));
    case "union": {
      const [first] = field.variants;
      return first === undefined ? null : makeValue(first.schema, root, depth + 1);
    }
  }
}

/** What an empty form begins with: what the schema gives as defaults, and a no where a yes or a no is needed. */
export function fillDefaults(schema: JsonSchema): Json | undefined {
  const field = describeField(schema, schema);
  if (field.fallback !== undefined) return field.fallback;
  if (field.kind !== "object") return undefined;
  return Object.fromEntries(field.properties.flatMap(({ name, schema: given, isRequired }): [string, Json][] => {
    const inner = describeField(given, schema);
    if (inner.fallback !== undefined && inner.fallback !== null) return [[name, inner.fallback]];
    return isRequired && inner.kind === "boolean" ? [[name, false]] : [];
  }));
}

/** How well a value fits a schema: 0 not at all; the number of known fields makes a better fit. */
function rateFit(value: Json, schema: JsonSchema, root: JsonSchema): number {
  const field = describeField(schema, root);
  switch (field.kind) {
    case "choice": return field.options.some((it) => it.value === value) ? 3 : 0;
    case "text": return typeof value === "string" ? 1 : 0;
    case "number": return typeof value === "number" ? 1 : 0;
    case "boolean": return typeof value === "boolean" ? 1 : 0;
    case "choices": case "texts": case "list": return Array.isArray(value) ? 1 : 0;
    case "map": case "json": return isObject(value) ? 0.5 : 0;
    case "union": return Math.max(0, ...field.variants.map((it) => rateFit(value, it.schema, root)));
    case "object": {
      if (!isObject(value)) return 0;
      const tag = field.properties.find((it) => it.name === "type");
      const given = getOwn(value, "type");
      if (tag !== undefined && given !== undefined) return rateFit(given, tag.schema, root) > 0 ? 100 : 0.1;
      return 1 + field.properties.filter((it) => Object.hasOwn(value, it.name)).length - (field.properties.some((it) => it.isRequired && !Object.hasOwn(value, it.name)) ? 0.5 : 0);
    }
  }
}

/** Which variant of a union a value is; -1 if none. */
export function findVariant(value: Json, variants: readonly { schema: JsonSchema }[], root: JsonSchema): number {
  const rates = variants.map((it) => rateFit(value, it.schema, root));
  const best = Math.max(0, ...rates);
  return best === 0 ? -1 : rates.indexOf(best);
}

/** A copy of a value with another part; `undefined` takes a field away. What the schema does not know stays. */
export function setAt(value: Json | undefined, path: Path, next: Json | undefined): Json | undefined {
  const [step, ...rest] = path;
  if (step === undefined) return next;
  if (typeof step === "number") {
    const items = Array.isArray(value) ? [...(value as Json[])] : [];
    const changed = setAt(items[step], rest, next);
    if (changed === undefined) items.splice(step, 1);
    else items[step] = changed;
    return items;
  }
  const fields: Record<string, Json> = isObject(value) ? { ...value } : {};
  const changed = setAt(getOwn(fields, step), rest, next);
  if (changed === undefined) delete fields[step];
  else setOwn(fields, step, changed);
  return fields;
}

export function getAt(value: Json | undefined, path: Path): Json | undefined {
  return path.reduce<Json | undefined>((now, step) => {
    if (typeof step === "number") return Array.isArray(now) ? (now as Json[])[step] : undefined;
    return isObject(now) ? getOwn(now, step) : undefined;
  }, value);
}

/** The messages about a field itself, not about what is below it. */
export function messagesAt(problems: readonly FieldProblem[], path: Path): string[] {
  const place = path.join("/");
  return problems.filter((it) => it.path === place).map((it) => it.message);
}

/** The problems of a record below a prefix, with paths from there: those of `agents/a/sections/x` for its form. */
export function problemsBelow(problems: readonly { path: string; message: string }[], prefix: string): FieldProblem[] {
  return problems
    .filter((it) => it.path === prefix || it.path.startsWith(`${prefix}/`))
    .map((it) => ({ path: it.path.slice(prefix.length + 1), message: it.message }));
}

/** A name as a label: `default_behavior` reads "Default behavior". */
export function labelName(name: string): string {
  const words = name.replaceAll(/[_-]+/g, " ").replace(/\bms\b/, "(ms)").replace(/\bsecs\b/, "(seconds)").replace(/\busd\b/, "(USD)").replace(/\bid\b/, "ID").replace(/\bids\b/, "IDs").replace(/\burl\b/, "URL");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** What a field is called: by the title that its schema gives it, else by its name. */
export function labelProperty({ name, schema }: Property): string {
  return typeof schema.title === "string" && schema.$ref === undefined ? schema.title : labelName(name);
}

export function showFallback(value: Json | undefined): string | undefined {
  if (value === undefined || value === null || value === "") return undefined;
  return typeof value === "object" ? undefined : String(value);
}
