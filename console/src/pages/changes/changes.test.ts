import { describe, expect, it } from "vitest";

import { DEFAULT_PLAN, summarizeSide, writePlan } from "./canaryPlan";
import { groupConflicts } from "./conflicts";
import { findUnreviewed } from "./reviews";
import { countByPublication } from "./workers";

describe("the plan of a canary", () => {
  it("sends shares as the server takes them, and null for a guardrail that is not set", () =>
    expect(writePlan({ ...DEFAULT_PLAN, percent: 25, maxP95Seconds: 1.5 })).toEqual({ percent: 25, by: "thread", guardrails: { min_runs: 20, window_ms: 900_000, max_error_rate: 0.05, max_error_rate_ratio: null, max_p95_ms: 1_500, max_cost_usd_per_run: null } }));
});

describe("the figures of a side", () => {
  const run = (ms: number, end: string, at = 100) => ({ status: "done", termination_reason: end, duration_ms: ms, input_tokens: 10, output_tokens: 2, created_at: at });
  it("counts runs that ended since the canary began", () =>
    expect(summarizeSide([run(100, "natural_end"), run(300, "error"), run(900, "error", 50), { status: "running", created_at: 200 }], 100)).toEqual({ runs: 2, failed: 1, p50: 100, p95: 300, tokens: 12 }));
  it("knows nothing of no runs", () => expect(summarizeSide([], 0)).toEqual({ runs: 0, failed: 0, p50: null, p95: null, tokens: null }));
});

describe("conflicts", () => {
  const record = { ns: "agents", id: "a", state: "conflict" as const, fields: [{ path: "sections/permission/rules", mine: 1 }, { path: "system_prompt", mine: "x" }, { path: "max_rounds", mine: 2 }] };
  it("shows the fields below each path that the server refused", () =>
    expect(groupConflicts(["agents/a/sections", "agents/a/system_prompt"], [record]).map((it) => [it.path, it.fields.map((field) => field.path)])).toEqual([
      ["agents/a/sections", ["sections/permission/rules"]],
      ["agents/a/system_prompt", ["system_prompt"]],
    ]));
  it("shows every field where the whole record is in conflict", () => expect(groupConflicts(["agents/a"], [record])[0]?.fields).toHaveLength(3));
});

it("counts processes by publication, the newest first", () =>
  expect(countByPublication([{ publication: null }, { publication: 2 }, { publication: 3 }, { publication: 2 }])).toEqual([{ publication: 3, count: 1 }, { publication: 2, count: 2 }, { publication: null, count: 1 }]));

describe("a draft that was reviewed", () => {
  const record = (id: string, prompt: string) => ({ ns: "agents", id, state: "changed" as const, fields: [{ path: "system_prompt", live: "", mine: prompt, is_conflict: false }] });
  const reviewed = { draft: "d", revision: 2, base: 1, head: 1, records: [record("a", "one"), record("b", "two")] };
  it("has nothing unread while neither it nor what is live moves", () => expect(findUnreviewed(reviewed, { ...reviewed, records: [] })).toBeNull());
  it("shows what changed, what came and what left, and leaves out what is as it was", () =>
    expect(findUnreviewed(reviewed, { ...reviewed, revision: 4, records: [record("a", "ONE"), record("c", "new")] })).toEqual({ records: [record("a", "ONE"), record("c", "new")], left: ["agents/b"] }));
  it("is unread when only what is live moved", () => expect(findUnreviewed(reviewed, { ...reviewed, head: 2 })).toEqual({ records: [], left: [] }));
});
