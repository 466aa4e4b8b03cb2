/** Texts of the pages of MCP servers and of A2A servers. */
export const mcp = {
  description: "Servers whose tools agents can use. What you add here is connected without a restart.",
  one: "MCP server", column: "Server", add: "Add a server", search: "Server",
  columns: { state: "State", transport: "Transport", target: "Command or address", tools: "Tools", protocol: "Protocol", error: "Last error" },
  empty: "No MCP servers yet", emptyHelp: "An MCP server is a program or an address that offers tools, prompts and resources.", emptyFiltered: "No server matches", command: "awaken config apply ./config   # mcp_servers:",
  restart: "Restart", restarted: "The connection is made anew.", lastError: "Last error", attempts: "Failures in a row", lastSuccess: "Last connected", sessions: "Sessions so far", env: "Environment", envHelp: "Names only; values are never shown.",
  inventory: "Inventory", tools: "Tools", prompts: "Prompts", resources: "Resources", none: "none", problems: "Tools that cannot be used", off: "off", notRunning: "This process has no connection to it yet.",
  loginTitle: "It waits for a login", loginHelp: "This tab leaves for the page of its authorization server and comes back. The login is kept in the file that the server names, for every process that reads it.",
  logIn: "Log in…", loginElsewhere: "Or on the server’s own machine; APP is the file that you serve:", copyLogin: "Copy the command that logs in",
  loginPage: "Login to an MCP server", loggedIn: (id: string) => `Logged in to ${id}.`, toServer: (id: string) => `Look at ${id}`, loginAgain: "Back to the MCP servers", loginForeign: "This tab did not begin this login, so its reply was not used. Begin again on the page of the MCP server.",
  driftTitle: (count: number) => `${count} ${count === 1 ? "tool has" : "tools have"} changed since ${count === 1 ? "it was" : "they were"} pinned`,
  driftRefused: "Agents keep the version that was pinned; without it the tool is not offered. Look at what the server offers now before you accept it.", driftReported: "Agents get the new version all the same, because this server only reports a change.",
  pinned: "pinned", offered: "offers", accept: "Accept the new versions…", acceptTitle: (id: string) => `Accept what ${id} offers now?`, acceptHelp: "The hashes of these tools are written into the record, so that every process takes them.",
  accepted: (count: number) => `${count} ${count === 1 ? "tool is" : "tools are"} pinned as offered now.`,
} as const;
export const a2a = {
  description: "Agents on other servers, found by their A2A card. Agents here name them as delegates.",
  one: "A2A server", column: "Server", add: "Add a server", search: "Server",
  columns: { state: "State", url: "Address", agent: "Agent", checked: "Checked", error: "Last error" },
  empty: "No A2A servers yet", emptyHelp: "Add the address of a server that publishes an agent card.", emptyFiltered: "No server matches", command: "awaken config apply ./config   # remotes:",
  card: "Card", noCard: "No card was read yet.", usedBy: "Agents that call it", nobody: "None.", auth: "Credentials", hasAuth: "stored, never shown", noAuth: "none",
} as const;
export const skills = {
  description: "Instructions that agents read when a task needs them.",
  one: "skill", column: "Skill", add: "New skill", search: "Skill or description",
  columns: { description: "Description", source: "Owner", agents: "Agents", size: "Size" },
  empty: "No skills yet", emptyHelp: "A skill is a text with a name and a description; agents with the skills plugin can read it.", emptyFiltered: "No skill matches", command: "awaken config apply ./config   # skills:",
  body: "Instructions", whoSees: "Agents that see it", nobody: "No agent sees it: turn the skills plugin on for one.", fromFolder: "From a folder of the server; it is edited there.",
} as const;
