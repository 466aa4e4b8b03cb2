/** What became of a draft since it was reviewed: a person publishes what they have read, and nothing later. Pure. */
import type { DraftDifference } from "../../api/drafts";

/** The changes of a draft that differ from those that were reviewed. */
export type ReviewChange = { records: DraftDifference["records"]; left: string[] };

const nameOf = (it: DraftDifference["records"][number]) => `${it.ns}/${it.id}`;

/** Tells what a person has not read yet; null if nothing has changed since. */
export function findUnreviewed(reviewed: DraftDifference, now: DraftDifference): ReviewChange | null {
  if (reviewed.revision === now.revision && reviewed.head === now.head) return null;
  const read = new Map(reviewed.records.map((it) => [nameOf(it), JSON.stringify(it)]));
  const names = new Set(now.records.map(nameOf));
  return { records: now.records.filter((it) => read.get(nameOf(it)) !== JSON.stringify(it)), left: [...read.keys()].filter((it) => !names.has(it)) };
}
