/** The fields that both sides of a draft changed, by the paths that the server names. Pure. */
import { ApiError } from "../../api/errors";
import type { FieldChange, RecordChange } from "../../ui/compare";

export type Conflict = { path: string; fields: FieldChange[] };

/** Finds what differs below each path: `agents/support/sections`, or `agents/support` for the whole record. */
export function groupConflicts(paths: readonly string[], records: readonly RecordChange[]): Conflict[] {
  return paths.map((path) => {
    const record = records.find((it) => path === `${it.ns}/${it.id}` || path.startsWith(`${it.ns}/${it.id}/`));
    const name = record === undefined ? "" : path.slice(record.ns.length + record.id.length + 2);
    return { path, fields: (record?.fields ?? []).filter((it) => name === "" || it.path === name || it.path.startsWith(`${name}/`)) };
  });
}

/** The paths of fields that both sides changed, if that is why a draft could not be brought onto what is live. */
export function readConflictPaths(error: unknown): readonly string[] | null {
  if (!(error instanceof ApiError) || error.code !== "draft_has_conflicts") return null;
  return Array.isArray(error.body.conflicts) ? (error.body.conflicts as string[]) : [];
}

/** Whether the server refuses to look at a draft until it is brought onto what is live. */
export function isRebaseNeeded(error: unknown): boolean {
  return error instanceof ApiError && error.code === "record_conflict";
}
