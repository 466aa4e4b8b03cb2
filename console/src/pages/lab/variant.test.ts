import { expect, test } from "vitest";

import type { Recording } from "./replaying";
import { hasChanges, listChanges, makeForm, rulesOf, writeReplay } from "./variant";

const recording = { run: { run_id: "r", agent_id: "clerk" }, config: { agents: { clerk: { id: "clerk", model_id: "m", system_prompt: "Help." } } } } as unknown as Recording;

test("only what differs from the recording is a change", () => {
  const form = makeForm(recording, 1);
  expect(hasChanges(form, recording)).toBe(false);
  expect(writeReplay(form, recording)).toEqual({ mode: "what_if", from_step: 1, keep_going: true, variant: { name: "lab", agent_id: "clerk" }, tools: { on_miss: "live_none" } });
  const changed = { ...form, prompt: "Help. Look up first.", model: "big", tools: { refund: "Refund, after a look." } };
  expect(listChanges(changed, recording)).toEqual({ model_id: "big", system_prompt: "Help. Look up first." });
  expect(writeReplay(changed, recording).variant).toEqual({ name: "lab", agent_id: "clerk", model_id: "big", instructions: "Help. Look up first.", tool_descriptions: { refund: "Refund, after a look." } });
});

test("a publication or a draft is what the change is tried on", () => {
  const form = makeForm(recording, 1);
  expect(writeReplay({ ...form, source: "publication:7" }, recording).variant).toEqual({ name: "lab", agent_id: "clerk", publication: 7 });
  expect(writeReplay({ ...form, source: "draft:a:b" }, recording).variant).toEqual({ name: "lab", agent_id: "clerk", draft_id: "a:b" });
});

test("rules are a section of the agent: its other sections stay, those of the recording in a replay, those that are live in a draft", () => {
  const spec = { id: "clerk", plugin_ids: ["permission"], sections: { permission: { rules: [] }, reminder: { rules: [] } } };
  const ruled = { ...recording, config: { agents: { clerk: spec } } } as unknown as Recording;
  expect(rulesOf(recording)).toBe(null);
  expect(rulesOf(ruled)).toEqual({ rules: [] });
  const rules = { rules: [{ tool: "refund", behavior: "deny" }] };
  expect(hasChanges({ ...makeForm(ruled, 1), rules: { rules: [] } }, ruled)).toBe(false);
  const form = { ...makeForm(ruled, 1), rules };
  expect(writeReplay(form, ruled).variant).toMatchObject({ changes: { sections: { permission: rules, reminder: { rules: [] } } } });
  expect(listChanges(form, ruled, { sections: { guardrails: {} } })).toEqual({ sections: { guardrails: {}, permission: rules }, plugin_ids: ["permission"] });
  // An agent without the plugin gets it with its first rule.
  expect(listChanges({ ...makeForm(recording, 1), rules }, recording)).toEqual({ sections: { permission: rules }, plugin_ids: ["permission"] });
});

test("a verification changes nothing", () => {
  expect(writeReplay({ ...makeForm(recording, 2), mode: "verify", prompt: "Other." }, recording)).toEqual({ mode: "verify", from_step: 2, keep_going: true });
});
