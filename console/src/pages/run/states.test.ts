import { expect, test } from "vitest";

import { applyPatch, foldStates, listChanges } from "./states";

test("a patch changes what it names and nothing else", () => {
  const value = { a: 1, list: [1, 2], deep: { x: { y: 1 } } };
  const changed = applyPatch(value, [
    { op: "replace", path: "/a", value: 2 }, { op: "add", path: "/list/-", value: 3 }, { op: "replace", path: "/list/0", value: 9 },
    { op: "remove", path: "/deep/x/y" }, { op: "add", path: "/a~1b", value: true }, { op: "copy", from: "/a", path: "/c" }, { op: "move", from: "/c", path: "/d" }, { op: "unknown" }, 7,
  ]);
  expect(changed).toEqual({ a: 2, list: [9, 2, 3], deep: { x: {} }, "a/b": true, d: 2 });
  expect(value).toEqual({ a: 1, list: [1, 2], deep: { x: { y: 1 } } });
});

test("a patch cannot reach the prototype", () => {
  applyPatch({}, [{ op: "add", path: "/__proto__", value: { hacked: true } }]);
  expect(({} as Record<string, unknown>).hacked).toBeUndefined();
});

test("changed keys are named with both values", () => {
  expect(listChanges({ a: 1, b: 1, c: 1 }, { a: 1, b: 2, d: 1 })).toEqual([
    { key: "b", kind: "changed", before: 1, after: 2 }, { key: "c", kind: "removed", before: 1, after: undefined }, { key: "d", kind: "added", before: undefined, after: 1 },
  ]);
});

test("the last state of a step counts, compared with the step before", () => {
  const states = foldStates([
    { step: 1, at: 1, event: { event_type: "state_snapshot", snapshot: { a: 1 } } },
    { step: 2, at: 2, event: { event_type: "state_delta", delta: [{ op: "add", path: "/b", value: 1 }] } },
    { step: 2, at: 3, event: { event_type: "state_snapshot", snapshot: { a: 1, b: 2 } } },
  ]);
  expect(states.map((it) => [it.step, it.value, it.changes.map((change) => change.key)])).toEqual([[1, { a: 1 }, ["a"]], [2, { a: 1, b: 2 }, ["b"]]]);
});
