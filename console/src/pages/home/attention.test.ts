import { expect, test } from "vitest";

import { ApiError } from "../../api/errors";
import { findUnknown, listNeeds } from "./attention";

const NONE = { count: 0, isMore: false };

test("a healthy server with nothing open needs no person", () => {
  expect(listNeeds({ health: { status: "healthy", components: { store: "ok" } }, tickets: { count: 0, oldest: null }, dead: { letters: NONE, outbox: NONE }, models: [{ model_id: "m", state: "closed" }], failed: 0, head: { publication: 1, switches: [] }, workers: [{ id: "w", running: 0, slots: 1, problem: null }] }, 0)).toEqual([]);
});

test("what is broken comes before what asks, each with its page", () => {
  const needs = listNeeds({ health: { status: "unhealthy", components: { store: "unavailable" } }, tickets: { count: 2, oldest: 0 }, dead: { letters: { count: 100, isMore: true }, outbox: NONE }, models: [{ model_id: "m", state: "open" }], failed: 3 }, 120_000);
  expect(needs.map((it) => [it.level, it.path])).toEqual([["bad", "/cluster"], ["bad", "/models"], ["bad", "/queue"], ["asks", "/approvals"], ["asks", "/runs"]]);
  expect(needs[0]?.text).toContain("store: unavailable");
  expect(needs[2]?.text).toBe("100+ dead letters");
  expect(needs[3]?.detail).toBe("oldest 2 min ago");
});

test("a degraded server works: it asks for a look, and nothing is broken", () => {
  const needs = listNeeds({ health: { status: "degraded", components: { store: "ok", carrier: "down" } } }, 0);
  expect(needs).toMatchObject([{ level: "asks", path: "/cluster" }]);
  expect(needs[0]?.text).toContain("carrier: down");
});

test("what could not be asked for is not nothing; what the caller may not see is", () => {
  const known = { isPending: false, fetchStatus: "idle", error: null };
  const failed = { ...known, error: new ApiError(500, { error: "The store failed." }, null) };
  const refused = { ...known, error: new ApiError(403, {}, null) };
  const { unknown, isPending } = findUnknown({ tickets: failed, workers: refused, models: known, head: { isPending: true, fetchStatus: "idle", error: null } });
  expect(isPending).toBe(false);
  expect(listNeeds({ unknown }, 0)).toMatchObject([{ text: "Not known: what waits for an answer", detail: "The store failed.", path: "/approvals" }]);
  expect(findUnknown({ tickets: { isPending: true, fetchStatus: "fetching", error: null } }).isPending).toBe(true);
});
