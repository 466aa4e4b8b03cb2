import { expect, test } from "vitest";

import { describeReason, describeTiming, takeSpec, zoneOf, type Schedule } from "./words";

test("a timing reads as a person says it", () => {
  expect(describeTiming({ type: "cron", expression: "0 8 * * MON", zone: "Europe/Berlin" })).toBe("0 8 * * MON (Europe/Berlin)");
  expect(describeTiming({ type: "interval", every_ms: 3_600_000, start_at: null })).toBe("every 1 h 0 min");
  expect(describeTiming({ type: "once", at: 0 }, "UTC")).toMatch(/^once, .*1970/);
});

test("why nothing ran is the server's sentence, else a known word", () => {
  expect(describeReason({ reason: "overlap", detail: null, outcome: "skipped" })).toBe("the run before had not ended");
  expect(describeReason({ reason: "forbidden", detail: "The token is gone.", outcome: "refused" })).toBe("The token is gone.");
});

test("a zone that the browser does not know is none", () => {
  expect([zoneOf({ type: "cron", zone: "Europe/Berlin" }), zoneOf({ type: "cron", zone: "Europe/Nowhere" }), zoneOf({ type: "once" }), zoneOf(null)]).toEqual(["Europe/Berlin", undefined, undefined, undefined]);
});

test("what is sent back is what a person says, not what the server adds", () => {
  const shown = { id: "a", timing: { type: "once", at: 1 }, target: { agent_id: "x" }, next_due: 5, last: null, description: "d" } as unknown as Schedule;
  expect(takeSpec(shown)).toEqual({ timing: { type: "once", at: 1 }, target: { agent_id: "x" }, description: "d" });
});
