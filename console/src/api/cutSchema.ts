/** Cuts a schema out of an OpenAPI document, for a form. Pure. */
import type { JsonSchema } from "../ui/schema/model";

export type DocumentSchemas = Readonly<Record<string, JsonSchema>>;
/** What a schema gets besides, by its name and that of a field. */
export type Extras = Readonly<Record<string, Readonly<Record<string, JsonSchema>>>>;

const PREFIX = "#/components/schemas/";

function listReferences(value: unknown, found: Set<string>): void {
  if (value === null || typeof value !== "object") return;
  for (const [name, it] of Object.entries(value)) {
    if (name === "$ref" && typeof it === "string" && it.startsWith(PREFIX)) found.add(it.slice(PREFIX.length));
    else listReferences(it, found);
  }
}

function addExtras(name: string, schema: JsonSchema, extras: Extras): JsonSchema {
  const given = extras[name];
  const properties = schema.properties as Record<string, JsonSchema> | undefined;
  if (given === undefined || properties === undefined) return schema;
  // Fields that have something besides stand first, in their order.
  const names = [...Object.keys(given).filter((it) => it in properties), ...Object.keys(properties).filter((it) => !(it in given))];
  return { ...schema, properties: Object.fromEntries(names.map((it) => [it, { ...properties[it], ...given[it] }])) };
}

/** Cuts one schema with all that it names out of a document. Pure. */
export function cutSchema(schemas: DocumentSchemas, name: string, extras: Extras = {}): JsonSchema {
  const wanted = new Set([name]);
  // A set is walked through with what is added meanwhile.
  for (const it of wanted) listReferences(schemas[it], wanted);
  wanted.delete(name);
  const parts = Object.fromEntries([...wanted].map((it) => [it, addExtras(it, schemas[it] ?? {}, extras)]));
  return { ...addExtras(name, schemas[name] ?? {}, extras), components: { schemas: parts } };
}
