/** The text of a record in its editor. Pure. */

import { isObject, type JsonObject, type JsonSchema } from "./schema/model";

/** Leaves out what only the server writes. */
export function dropReadOnly(record: JsonObject, schema: JsonSchema): JsonObject {
  const properties = isObject(schema.properties) ? schema.properties : {};
  return Object.fromEntries(Object.entries(record).filter(([name]) => !(isObject(properties[name]) && properties[name].readOnly === true)));
}

export type ReadText = { body: Record<string, unknown> } | { problem: string };

/** Reads the object of a text, or says why it is none. */
export function readObject(text: string): ReadText {
  try {
    const value: unknown = JSON.parse(text);
    if (value === null || typeof value !== "object" || Array.isArray(value)) return { problem: "an object is needed" };
    return { body: value as Record<string, unknown> };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

const ID = /^[A-Za-z0-9._:@-]{1,128}$/;

export function isRecordId(id: string): boolean {
  return ID.test(id);
}
