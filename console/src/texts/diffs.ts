/** Texts of comparisons. */
export const diffs = {
  lines: "Changed lines",
  added: "added",
  removed: "removed",
  folded: (count: number) => `${count} equal lines`,
  absent: "absent",
  whole: "the whole record",
  from: "before",
  to: "after",
  conflict: "both sides changed it",
  live: "live now",
  mine: "in the draft",
  noFields: "No field differs.",
  noLines: "No line differs.",
  states: { same: "same as live", added: "new", changed: "changed", deleted: "deleted", theirs: "changed by others only", conflict: "conflict" },
} as const;
