/** Which fields of two objects differ, and how a value is shown as text. Pure. */
import type { Schemas } from "../api/client";

/** A field that differs; versions that do not have it are left out. */
export type FieldChange = Pick<Schemas["FieldDifference"], "path"> & Partial<Pick<Schemas["FieldDifference"], "base" | "live" | "mine" | "is_conflict">>;
/** A record that differs, and how it stands; without fields it is the same. */
export type RecordChange = Pick<Schemas["ComparedRecord"], "ns" | "id" | "state"> & { readonly fields?: readonly FieldChange[] };

type Fields = Readonly<Record<string, unknown>>;

function isFields(value: unknown): value is Fields {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Lists the fields in which two objects differ, as deep as both sides are objects. `live` is the value before, `mine` the one after. */
export function compareFields(before: unknown, after: unknown, path = ""): FieldChange[] {
  if (isSame(before, after)) return [];
  const isDeep = (isFields(before) && isFields(after)) || (path === "" && (isFields(before) || isFields(after)));
  if (!isDeep) return [{ path, live: before, mine: after }];
  const sides: readonly [Fields, Fields] = [isFields(before) ? before : {}, isFields(after) ? after : {}];
  const names = [...new Set([...Object.keys(sides[0]), ...Object.keys(sides[1])])].sort();
  return names.flatMap((name) => compareFields(sides[0][name], sides[1][name], path === "" ? name : `${path}/${name}`));
}

/** A value as people compare it: texts as they are, all else as JSON. */
export function writeValue(value: unknown): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

const LONG = 80;

/** Whether two values are compared line by line rather than side by side in one line. */
export function isCompareByLine(before: unknown, after: unknown): boolean {
  return [before, after].some((it) => {
    const text = writeValue(it);
    return text.includes("\n") || text.length > LONG;
  });
}
