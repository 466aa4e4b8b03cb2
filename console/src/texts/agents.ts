/** Texts of the list of agents. */
export const agents = {
  description: "Who answers: each agent with its model, its tools and its last day.",
  search: "Agent or description",
  model: "Model",
  columns: { agent: "Agent", description: "Description", model: "Model", tools: "Tools", runs: "Runs 24 h", errors: "Errors", p95: "Model call p95", cost: "Cost 24 h", owner: "Owner", updated: "Changed" },
  new: "New agent",
  newHelp: "It begins in a draft; nothing is live until you publish it.",
  copyOf: "Copy of",
  copyHelp: "Its prompt, model, limits and sections are taken over. Empty: from scratch.",
  create: "Create in a draft",
  inDraft: "only in a draft",
  empty: "No agents yet",
  emptyHelp: "An agent is a model with a prompt and tools.",
  emptyFiltered: "No agent matches the filters",
  command: "awaken config apply ./agents",
  switchedOff: "paused",
  chat: "Chat",
} as const;
