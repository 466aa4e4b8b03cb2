/** Every page of the rail. */
export const PAGES = [
  "/", "/chat", "/approvals", "/runs", "/threads", "/queue", "/agents", "/tools", "/mcp", "/skills", "/a2a", "/models", "/policy", "/cost", "/changes", "/audit", "/workers", "/settings",
] as const;
