/** Texts of the pages of MCP servers and of A2A servers. */
export const mcp = {
  description: "Servers whose tools agents can use. What you add here is connected without a restart.",
  one: "MCP server", add: "Add a server", search: "Server",
  columns: { server: "Server", state: "State", transport: "Transport", target: "Command or address", tools: "Tools", protocol: "Protocol", owner: "Owner", error: "Last error" },
  empty: "No MCP servers yet", emptyHelp: "An MCP server is a program or an address that offers tools, prompts and resources.", emptyFiltered: "No server matches", command: "awaken config apply ./config   # mcp_servers:",
  restart: "Restart", restarted: "The connection is made anew.", lastError: "Last error", attempts: "Failures in a row", lastSuccess: "Last connected", sessions: "Sessions so far", env: "Environment", envHelp: "Names only; values are never shown.", headers: "Headers",
  inventory: "Inventory", tools: "Tools", prompts: "Prompts", resources: "Resources", none: "none", problems: "Tools that cannot be used", off: "off", pins: "Hashes of tools are pinned", notRunning: "This process has no connection to it yet.",
} as const;
export const a2a = {
  description: "Agents on other servers, found by their A2A card. Agents here name them as delegates.",
  one: "A2A server", add: "Add a server", search: "Server",
  columns: { server: "Server", state: "State", url: "Address", agent: "Agent", checked: "Checked", owner: "Owner", error: "Last error" },
  empty: "No A2A servers yet", emptyHelp: "Add the address of a server that publishes an agent card.", emptyFiltered: "No server matches", command: "awaken config apply ./config   # remotes:",
  card: "Card", noCard: "No card was read yet.", usedBy: "Agents that call it", nobody: "None.", auth: "Credentials", hasAuth: "stored, never shown", noAuth: "none", failures: "Failures in a row",
} as const;
export const skills = {
  description: "Instructions that agents read when a task needs them.",
  one: "skill", add: "New skill", search: "Skill or description",
  columns: { skill: "Skill", description: "Description", source: "Owner", agents: "Agents", size: "Size", updated: "Changed" },
  empty: "No skills yet", emptyHelp: "A skill is a text with a name and a description; agents with the skills plugin can read it.", emptyFiltered: "No skill matches", command: "awaken config apply ./config   # skills:",
  body: "Instructions", whoSees: "Agents that see it", nobody: "No agent sees it: turn the skills plugin on for one.", fromFolder: "From a folder of the server; it is edited there.",
} as const;
