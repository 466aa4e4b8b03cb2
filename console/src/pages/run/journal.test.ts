import { describe, expect, it } from "vitest";

import { drawJournal, statusOf, type Step } from "./journal";

const step = (path: string, kind = "call", status = "done"): Step => ({ path, kind, name: kind, status, attempt: 1, effect: "none", error: null, ticket_id: null, event: null, event_schema: null, until: null, child_run_id: null, winner: null, result: null });
const paths = (nodes: ReturnType<typeof drawJournal>): unknown[] => nodes.map((it) => (it.branches.length === 0 ? it.path : [it.path, ...it.branches.map((branch) => paths(branch.nodes))]));

describe("the picture of a journal", () => {
  it("has branches as lanes, in the order of their paths and not of their records", () => {
    const recorded = ["1", "3.1.1", "3.0.2", "3.0.1", "2", "10"].map((it) => step(it));
    expect(paths(drawJournal(recorded))).toEqual(["1", "2", ["3", ["3.0.1", "3.0.2"], ["3.1.1"]], "10"]);
    expect(paths(drawJournal(recorded.toReversed()))).toEqual(paths(drawJournal(recorded)));
  });
  it("nests branches within branches", () => expect(paths(drawJournal([step("1", "gather"), step("1.0.1", "gather"), step("1.0.1.1.1")]))).toEqual([["1", [["1.0.1", ["1.0.1.1.1"]]]]]));
  it("leaves out what is no path", () => expect(drawJournal([step("reset:1"), step("1.2")])).toEqual([]));
  it("draws ten thousand steps at once", () => {
    const begin = performance.now();
    expect(drawJournal(Array.from({ length: 10_000 }, (_, at) => step(String(at + 1))))).toHaveLength(10_000);
    expect(performance.now() - begin).toBeLessThan(1_000);
  });
});

describe("the status of a fork", () => {
  it("is that of its branches while its own is not recorded", () => {
    const [fork] = drawJournal([step("1.0.1"), step("1.1.1", "wait_for", "waiting")]);
    expect(fork === undefined ? null : statusOf(fork)).toBe("waiting");
  });
  it("is its own for a race that has a winner, though a loser waited", () => {
    const [race] = drawJournal([step("1", "race"), step("1.0.1"), step("1.1.1", "sleep", "waiting")]);
    expect(race === undefined ? null : statusOf(race)).toBe("done");
  });
});
