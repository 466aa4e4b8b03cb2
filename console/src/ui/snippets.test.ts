import { expect, test } from "vitest";

import { makeSnippets } from "./snippets";

test("every snippet but the one for a pipe names this server, and none has the token", () => {
  const snippets = makeSnippets({ url: "http://h:1/mount", agent: "a", hasToken: true });
  expect(snippets.map((it) => it.name)).toEqual(["curl", "AI SDK", "AG-UI", "OpenAI", "Python", "A2A", "MCP", "ACP"]);
  for (const { name, text } of snippets) expect(text.includes("http://h:1/mount"), name).toBe(name !== "ACP");
  expect(snippets[0]?.text).toContain("$AWAKEN_TOKEN");
});

test("a text cannot leave its quotes in a shell", () => {
  const [curl] = makeSnippets({ url: "http://h", agent: "a", hasToken: false, text: "it's $(rm) `x`" });
  expect(curl?.text).toContain(`it'\\''s $(rm)`);
});
