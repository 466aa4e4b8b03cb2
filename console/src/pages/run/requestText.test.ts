import { diffLines } from "diff";
import { expect, test } from "vitest";

import { listDiffLines, readRequest, writeRequest } from "./requestText";

const request = {
  upstream_model: "m",
  system: ["Be brief.", { type: "text", text: "Today is Monday." }],
  tools: [{ id: "search", parameters: {} }],
  messages: [{ role: "user", content: [{ type: "text", text: "Hi" }] }, { role: "assistant", content: [], tool_calls: [{ id: "c", name: "search", arguments: { q: 1 } }] }, { role: "tool", content: "ok", tool_call_id: "c" }],
};

test("a request is read into its parts", () => {
  const parts = readRequest(request);
  expect(parts.system).toBe("Be brief.\n\nToday is Monday.");
  expect(parts.messages.map((it) => [it.role, it.text, it.calls.length, it.callId])).toEqual([["user", "Hi", 0, null], ["assistant", "", 1, null], ["tool", "ok", 0, "c"]]);
  expect(parts.tools.map((it) => it.name)).toEqual(["search"]);
  expect(parts.rest).toEqual({ upstream_model: "m" });
});

test("nothing that is no request breaks the reading", () => {
  for (const it of [null, 7, "x", [], { messages: 3, system: { a: 1 }, tools: "x" }, { messages: [null, 4] }]) expect(writeRequest(readRequest(it))).toContain("# messages");
});

test("a comparison keeps the lines around a change", () => {
  const before = Array.from({ length: 40 }, (_, index) => `line ${index}`).join("\n") + "\n";
  const lines = listDiffLines(diffLines(before, before.replace("line 20", "LINE 20")));
  expect(lines[0]).toEqual({ kind: "skip", text: "17" });
  expect(lines.filter((it) => it.kind === "added")).toEqual([{ kind: "added", text: "LINE 20" }]);
  expect(lines.filter((it) => it.kind === "same").length).toBe(6);
});
