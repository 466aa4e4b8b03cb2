/** Every page of the rail. */
export const PAGES = [
  "/", "/chat", "/approvals", "/schedules", "/runs", "/workflows", "/threads", "/queue", "/agents", "/tools", "/mcp", "/skills", "/a2a", "/memory", "/models", "/datasets", "/evals", "/lab", "/policy", "/cost", "/changes", "/audit", "/cluster", "/settings",
] as const;
