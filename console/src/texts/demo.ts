/** Texts about demo data. */
export const demo = {
  title: "Demo data",
  help: "Threads and runs of several outcomes, so that no page is empty. They count for no cost, usage or budget, and are removed whole.",
  make: "Add demo data",
  remove: "Remove demo data",
  made: "Demo data was added. The list of runs shows it with the kind “demo”.",
  removed: "The demo data was removed.",
} as const;
