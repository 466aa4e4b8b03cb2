import { expect, test } from "vitest";

import type { Recording } from "./replaying";
import { hasChanges, listChanges, makeForm, writeReplay } from "./variant";

const recording = { run: { run_id: "r", agent_id: "clerk" }, config: { agents: { clerk: { id: "clerk", model_id: "m", system_prompt: "Help." } } } } as unknown as Recording;

test("only what differs from the recording is a change", () => {
  const form = makeForm(recording, 1);
  expect(hasChanges(form, recording)).toBe(false);
  expect(writeReplay(form, recording)).toEqual({ mode: "what_if", from_step: 1, keep_going: true, variant: { name: "lab", agent_id: "clerk" }, tools: { on_miss: "live_none" } });
  const changed = { ...form, prompt: "Help. Look up first.", model: "big", tools: { refund: "Refund, after a look." } };
  expect(listChanges(changed, recording)).toEqual({ model_id: "big", system_prompt: "Help. Look up first." });
  expect(writeReplay(changed, recording).variant).toEqual({ name: "lab", agent_id: "clerk", model_id: "big", instructions: "Help. Look up first.", tool_descriptions: { refund: "Refund, after a look." } });
});

test("a verification changes nothing", () => {
  expect(writeReplay({ ...makeForm(recording, 2), mode: "verify", prompt: "Other." }, recording)).toEqual({ mode: "verify", from_step: 2, keep_going: true });
});
