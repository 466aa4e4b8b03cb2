import { expect, test } from "vitest";

import { applyChange, makeOverrides, makeWrite, pickDraft } from "../../api/changes";
import { compareVersions, mergeVersions } from "./merge";

const base = { id: "a", system_prompt: "one", max_rounds: 4, sections: { permission: { rules: [] } } };

test("fields that one side changed are merged, and a clash waits for a choice", () => {
  const theirs = { ...base, system_prompt: "two", description: "d" };
  const mine = { ...base, system_prompt: "three", max_rounds: 5, sections: { permission: { rules: [] }, reminder: {} } };
  const fields = compareVersions(base, theirs, mine);
  expect(fields.filter((it) => it.isClash).map((it) => it.path)).toEqual(["system_prompt"]);
  expect(mergeVersions(base, theirs, mine, () => "theirs")).toEqual({ id: "a", system_prompt: "two", max_rounds: 5, description: "d", sections: { permission: { rules: [] }, reminder: {} } });
  expect(mergeVersions(base, theirs, mine, () => "mine").system_prompt).toBe("three");
});

test("a field that one side removed is removed, and the same change on both sides is no clash", () => {
  const { max_rounds: _rounds, ...without } = base;
  expect(mergeVersions(base, without, base, () => "mine")).not.toHaveProperty("max_rounds");
  expect(compareVersions(base, { ...base, max_rounds: 9 }, { ...base, max_rounds: 9 })).toMatchObject([{ isClash: false }]);
});

test("overrides have only what differs, sections by key, and bring the record back", () => {
  const mine = { ...base, system_prompt: "new", sections: { reminder: { rules: [1] } } };
  const overrides = makeOverrides(base, mine);
  expect(overrides).toEqual({ system_prompt: "new", sections: { permission: null, reminder: { rules: [1] } } });
  expect(applyChange(base, { ns: "agents", id: "a", type: "patch", overrides, hidden: false })).toEqual(mine);
  expect(makeOverrides(base, base)).toEqual({});
});

test("agents of the code are written as overrides, the others whole and with unknown fields", () => {
  expect(makeWrite("code", base, { ...base, max_rounds: 1 })).toEqual({ overrides: { max_rounds: 1 } });
  expect(makeWrite("user", base, { ...base, odd: true, created_at: 1 })).toEqual({ spec: { ...base, odd: true } });
});

test("a person goes on with the draft that has the record, else with the latest of their own", () => {
  const draft = (id: string, editor: string, updated_at: number, agents: string[]) => ({ id, title: "", base: null, owner: editor, editors: [editor], revision: 1, origin: null, created_at: 0, updated_at, expires_at: 0, changes: agents.map((it) => ({ ns: "agents", id: it, type: "put" as const })) });
  const drafts = [draft("1", "me", 1, ["a"]), draft("2", "me", 2, []), draft("3", "you", 3, ["a"])];
  expect(pickDraft(drafts, "me", "agents", "a")?.id).toBe("1");
  expect(pickDraft(drafts, "me", "agents", "b")?.id).toBe("2");
  expect(pickDraft(drafts, "nobody", "agents", "a")).toBeUndefined();
});
