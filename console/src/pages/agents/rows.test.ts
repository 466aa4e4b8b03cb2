import { expect, test } from "vitest";

import { filterAgents, listAgents } from "./rows";

const sources = {
  agents: [{ id: "a", description: "Sells", model: "fast", tools: ["x"], context_schema: null, is_workflow: false, input_schema: null }, { id: "b", description: "", model: "best", tools: [], context_schema: null, is_workflow: false, input_schema: null }],
  stats: [],
  metas: [{ source: { kind: "user" as const }, id: "a", hidden: false, revision: 1, owner: "file:main", drift: false, publication: 1, hash: null, created_at: 0, updated_at: 0, updated_by: null }],
  drafts: [{ id: "d", title: "", base: null, owner: "me", editors: ["me"], revision: 1, origin: null, created_at: 1, updated_at: 1, expires_at: 1, changes: [{ ns: "agents", id: "c", type: "put" as const }, { ns: "agents", id: "a", type: "patch" as const }] }],
  switches: [{ kind: "agent" as const, id: "b", state: "paused" as const, reason: "r", by: "me", at: 1 }],
};

test("agents of drafts stand beside live ones, once", () => {
  expect(listAgents(sources).map((it) => [it.id, it.draftId, it.isPaused])).toEqual([["a", undefined, false], ["b", undefined, true], ["c", "d", false]]);
});

test("filters look at names, owners and models", () => {
  const rows = listAgents(sources);
  expect(filterAgents(rows, { q: "SELL" }).map((it) => it.id)).toEqual(["a"]);
  expect(filterAgents(rows, { owner: "file" }).map((it) => it.id)).toEqual(["a"]);
  expect(filterAgents(rows, { owner: "draft" }).map((it) => it.id)).toEqual(["b", "c"]);
  expect(filterAgents(rows, { model: "best" }).map((it) => it.id)).toEqual(["b"]);
});
