import { expect, test } from "vitest";

import { describeRun, lookOf } from "./words";

const run = { status: "done", steps: 2, waiting: null, termination: null } as const;

test("every state of a run has a sentence", () => {
  expect(describeRun({ ...run, status: "created" })).toContain("queued");
  expect(describeRun({ ...run, status: "running" })).toContain("step 3");
  const waiting = { reason: "pinned_config_unusable", problem: "The tool x is gone.", question: null, before: null, message: null, diverged: null, since_dispatch_id: null, ticket_ids: [] } as const;
  expect(describeRun({ ...run, status: "waiting", waiting: { ...waiting, ticket_ids: [] } })).toContain("The tool x is gone.");
  expect(describeRun({ ...run, termination: { type: "stopped", value: { code: "max_steps", detail: "5" } } })).toContain("max steps (5)");
  expect(describeRun({ ...run, termination: { type: "error", code: "rate_limited", value: "Slow down." } })).toContain("rate_limited: Slow down.");
  expect(describeRun({ ...run, termination: { type: "cancelled", cause: "interrupt" } })).toContain("interrupted");
});

test("an end that is no success does not look like one", () => {
  expect(lookOf({ ...run, termination: { type: "error", code: "x", value: "" } })).toBe("failed");
  expect(lookOf({ ...run, termination: { type: "cancelled", cause: "user" } })).toBe("cancelled");
  expect(lookOf({ ...run, termination: { type: "natural_end" } })).toBe("done");
  expect(lookOf({ ...run, status: "waiting" })).toBe("waiting");
});
