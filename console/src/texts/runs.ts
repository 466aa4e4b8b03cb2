/** Texts of the list of runs. */
export const runs = {
  description: "Every execution of an agent, newest first.",
  search: "Run or thread id",
  status: "Status",
  agent: "Agent",
  kind: "Kind",
  ended: "Ended",
  columns: { run: "Run", status: "Status", agent: "Agent", kind: "Kind", publication: "Publication", created: "Started", took: "Took", steps: "Steps", tokens: "Tokens", end: "End", thread: "Thread" },
  empty: "No runs yet",
  emptyHelp: "A run appears here as soon as an agent is asked something, over any protocol.",
  emptyFiltered: "No run matches the filters",
  startChat: "Start a chat",
  command: 'awaken run AGENT "Hello"',
  cancel: "Cancel runs",
  cancelTitle: (count: number) => `Cancel ${count} ${count === 1 ? "run" : "runs"}?`,
  cancelBody: "What they have done stays; what they wait for or execute ends as cancelled.",
  cancelled: (count: number) => `${count} ${count === 1 ? "run was" : "runs were"} asked to stop.`,
} as const;
