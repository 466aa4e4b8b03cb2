/** Texts of datasets and cases. */
export const datasets = {
  description: "Cases to try agents with. Every change is a revision, and an eval names the one that it tried.",
  columns: { id: "Dataset", description: "Description", cases: "Cases", revision: "Revision", evals: "Last eval" },
  olderEval: "long ago, if any",
  empty: "No datasets",
  emptyHelp: "A case comes from a person, from a run that really happened, or from another tool's file. Open a run and save it as a case, or make a dataset here.",
  command: "awaken eval push refunds evals/refunds",
  new: "New dataset",
  id: "ID",
  idHelp: "Letters, digits, dots, hyphens and underscores.",
  about: "Description",
  create: "Create",
  taken: "A dataset has this ID already.",
  badId: "1 to 128 letters, digits, dots, hyphens or underscores.",
  capture: {
    open: "Save as case", title: "Save as case", help: "The case has the input, the answers of the model as a script, and the recording of the run without secrets. It is a draft until you confirm what it expects.", dataset: "Dataset", datasetHelp: "One that does not exist is made.", case: "Case ID", caseHelp: "Optional: it gets one by itself.", tags: "Tags", tagsHelp: "Separated by Enter.", save: "Save", saved: "Saved as a draft.", ofStep: (step: number) => `step-${step}`, willMake: (id: string) => `The dataset “${id}” will be made.`,
  },
  one: {
    notFound: "There is no such dataset", all: "All datasets", start: "Start an eval", addCase: "New case", remove: "Delete", removeTitle: (id: string) => `Delete ${id}?`, removeBody: "It goes out of lists. Evals can still read its old revisions.", removed: "Deleted.",
    tabs: { cases: "Cases", waiting: "Waiting", revisions: "Revisions", settings: "Scorers and gate" }, tabsLabel: "Parts of the dataset",
    columns: { case: "Case", input: "Input", tags: "Tags", split: "Split", last: "Last results", source: "From", status: "Status", weight: "Weight" },
    search: "Search ids and inputs", tag: "Tag", noCases: "No cases", noCasesHelp: "Save a run as a case, or write one.", noMatch: "No case fits the filters", never: "never tried", passedOf: (passed: number, all: number) => `${passed} of ${all} passed`, flaky: "flaky", missing: (count: number) => `${count} missing`, waitingHelp: "Captured cases whose expectation was proposed from the run. Evals leave them out until you confirm them.", noWaiting: "Nothing waits for confirmation", noWaitingHelp: "Cases that were captured from runs appear here until a person has confirmed what they expect.", erased: (ids: string) => `Deleted with their thread or user: ${ids}`, person: "a person", run: "a run", lastOf: (id: string) => `of eval ${id}`, confirm: "Confirm", reject: "Delete", deleteSelected: "Delete", deleteCases: (count: number) => `Delete ${count} ${count === 1 ? "case" : "cases"}?`, deleteCasesBody: "They are left out of the next revision. Old revisions keep them.", deletedCases: "Deleted.", confirmed: (count: number) => `${count} confirmed.`, ready: "ready", draft: "draft",
  },
  case: {
    newTitle: "New case", title: (id: string) => `Case ${id}`, gone: "The case does not exist any more.", tabs: { expect: "Input and expectation", world: "World", json: "JSON", trial: "Try" }, tabsLabel: "Parts of the case", id: "Case ID", save: "Save", confirm: "Confirm and save", saved: "Saved.", confirmed: "Confirmed: evals use the case from now on.", isDraft: "Proposed from a run", isDraftHelp: "What it expects was proposed from the run. Change it to what should have happened, then confirm.", leaveBody: "What you typed here is not saved.", mergeTitle: (id: string) => `Another person changed ${id}`, lab: "Open its run in the lab", run: "Its run",
    worldHelp: "What the agent is given instead of reality: stubs first, then the recording. A tool with effects is never executed.", trial: "Try the case", trialHelp: "Tries the case as it is saved, with the agent as it is live. Tools answer as the world of the case says.", trialUnsaved: "Save the case first: what is saved is tried.", repeats: "Repeats", trialOpen: "Open the eval", duplicate: (id: string) => `The case “${id}” has the same input.`, scorersHelp: "Beside what is expected above.", input: "Input", expectTitle: "Expectation", more: "More", jsonHelp: "The whole case, the script of the model included.",
  },
  revisions: { columns: { revision: "Revision", cases: "Cases", by: "By", at: "When", about: "Description" }, compare: "Compare", from: "From", to: "To", same: "The two revisions say the same.", restore: "Restore", restoreTitle: (no: number) => `Restore revision ${no}?`, restoreBody: "The next revision says what this one said. Nothing is lost.", restored: (no: number) => `Revision ${no} was restored.`, diff: (from: number, to: number) => `From revision ${from} to ${to}`, deleted: "deleted", settingsPart: "dataset" },
  settings: { about: "Description", scorers: "Scorers for every case", scorersHelp: "Beside those of the cases.", addScorer: "Add a scorer", removeScorer: "Remove", scorer: "Scorer", name: "Name", nameHelp: "How its scores are called. Empty: as the scorer.", threshold: "Passes from", options: "Options", gate: "Gate", gateHelp: "What an eval has to show. Publishing can ask for it.", hasGate: "This dataset has a gate", save: "Save", saved: "Saved.", known: (names: string) => `Scorers that cases have: ${names}`, noKnown: "No case has a scorer yet." },
} as const;
