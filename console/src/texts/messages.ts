/** Texts of stored messages. */
export const messages = {
  roles: { user: "User", assistant: "Agent", tool: "Tool result", system: "System" },
  internal: "internal",
  thinking: "Thinking",
  calls: (name: string) => `Calls ${name}`,
  media: (type: string) => `Attachment: ${type}`,
  showAll: (chars: number) => `Show ${chars.toLocaleString("en")} more characters`,
  blank: "No content.",
} as const;
