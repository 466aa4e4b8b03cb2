/** Texts of the list of tools. */
export const tools = {
  description: "What agents can call: where each tool comes from, who has it, and how it did in the last day.",
  search: "Tool or description", source: "From",
  columns: { tool: "Tool", source: "From", effect: "Effect", agents: "Agents", calls: "Calls 24 h", errors: "Errors", p95: "p95", description: "Description" },
  sources: { builtin: "Code", plugin: "Plugin", mcp: "MCP server" } as Readonly<Record<string, string>>,
  effects: { none: "Reads only", idempotent: "Can be repeated", once: "Has effects" } as Readonly<Record<string, string>>,
  empty: "No tools yet", emptyHelp: "Tools come from the code of agents, from plugins and from MCP servers.", emptyFiltered: "No tool matches the filters",
  addServer: "Add an MCP server", command: "awaken config apply ./config   # mcp_servers:",
  schema: "Arguments", whoHas: "Agents that have it", nobody: "No agent has it.", override: "Description for the model", overrideHelp: "Replaces the description of the code, at most 4,096 bytes. Empty: that of the code.",
  overridden: "overridden", notOverridable: "The descriptions of MCP tools come from their server.",
  off: "switched off", switchOff: "Switch off…", switchOn: "Switch on", switchTitle: (id: string) => `Switch “${id}” off?`, switchHelp: "At once, for new runs and for runs under way: calls get the answer that an operator disabled it.", reason: "Reason", switchedOff: (id: string) => `“${id}” is switched off.`, switchedOn: (id: string) => `“${id}” is on again.`,
  theirs: "Another person changed the description meanwhile.", keepMine: "Keep mine", takeTheirs: "Take theirs",
  backToCode: "Back to the code’s",
} as const;
