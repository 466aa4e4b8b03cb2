/** Texts about demo data. */
export const demo = {
  title: "Demo data",
  help: "Threads, runs, workflows, schedules, memory, a dataset and evals, so that no page is empty. They count for no cost, usage or budget, start nothing, and are removed whole.",
  make: "Add demo data",
  remove: "Remove demo data",
  show: "Show demo data",
  places: "Where it is shown",
  tag: "demo",
  only: "Demo data starts nothing and cannot be changed.",
  filter: "Demo data",
  withDemo: "With demo data",
  onlyDemo: "Demo data only",
  made: "Demo data was added. Lists show it only when they are asked for it.",
  removed: "The demo data was removed.",
} as const;
