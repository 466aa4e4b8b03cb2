/** Three versions of a record: what both began with, what another person saved, what this page has. Pure. */
import { isSame } from "../../api/changes";
import { isObject, type Json, type JsonObject } from "../schema/model";

export type FieldVersions = {
  /** A field, or `sections/<key>`. */
  path: string;
  base: Json | undefined;
  theirs: Json | undefined;
  mine: Json | undefined;
  /** Both changed it, to different values. */
  isClash: boolean;
};
export type Side = "theirs" | "mine";

const IGNORED = new Set(["created_at", "updated_at"]);

function flatten(record: JsonObject): Map<string, Json> {
  const { sections, ...rest } = record;
  const fields = Object.entries(rest).filter(([name]) => !IGNORED.has(name));
  const parts = isObject(sections) ? Object.entries(sections).map(([key, it]): [string, Json] => [`sections/${key}`, it]) : [];
  return new Map([...fields, ...parts]);
}

function unflatten(fields: ReadonlyMap<string, Json>, hasSections: boolean): JsonObject {
  const record: Record<string, Json> = {};
  const sections: Record<string, Json> = {};
  for (const [path, value] of fields) {
    if (path.startsWith("sections/")) sections[path.slice("sections/".length)] = value;
    else record[path] = value;
  }
  return hasSections ? { ...record, sections } : record;
}

/** The fields in which one side differs from the base. */
export function compareVersions(base: JsonObject, theirs: JsonObject, mine: JsonObject): FieldVersions[] {
  const [a, b, c] = [flatten(base), flatten(theirs), flatten(mine)];
  const paths = [...new Set([...a.keys(), ...b.keys(), ...c.keys()])].sort();
  return paths.flatMap((path): FieldVersions[] => {
    const versions = { base: a.get(path), theirs: b.get(path), mine: c.get(path) };
    const isTheirs = !isSame(versions.base, versions.theirs), isMine = !isSame(versions.base, versions.mine);
    if (!isTheirs && !isMine) return [];
    return [{ path, ...versions, isClash: isTheirs && isMine && !isSame(versions.theirs, versions.mine) }];
  });
}

/** The record with every field of the side that changed it; clashes take the side that was chosen. */
export function mergeVersions(base: JsonObject, theirs: JsonObject, mine: JsonObject, choose: (path: string) => Side): JsonObject {
  const merged = flatten(base);
  for (const it of compareVersions(base, theirs, mine)) {
    const side: Side = it.isClash ? choose(it.path) : isSame(it.base, it.mine) ? "theirs" : "mine";
    const value = it[side];
    if (value === undefined) merged.delete(it.path);
    else merged.set(it.path, value);
  }
  return unflatten(merged, [base, theirs, mine].some((it) => "sections" in it));
}
