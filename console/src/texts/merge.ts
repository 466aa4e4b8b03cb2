/** Texts of the choice between two people's changes. */
export const merge = {
  help: "Fields that only one side changed are taken over. Choose for the others.",
  base: "Before", theirs: "Theirs", mine: "Mine", apply: "Save the merged version", both: "changed on both sides", onlyTheirs: "changed by them", onlyMine: "changed by you", absent: "not set", diff: "Difference from theirs to mine",
} as const;
