import { expect, test } from "vitest";

import { listChanges } from "./states";

test("changed keys are named with both values", () => {
  expect(listChanges({ a: 1, b: 1, c: 1 }, { a: 1, b: 2, d: 1 })).toEqual([
    { key: "b", kind: "changed", before: 1, after: 2 }, { key: "c", kind: "removed", before: 1, after: undefined }, { key: "d", kind: "added", before: undefined, after: 1 },
  ]);
});

test("values that are equal but other objects have not changed", () => {
  expect(listChanges({ a: { x: [1] } }, { a: { x: [1] } })).toEqual([]);
});

test("a masked key has changed if its step says so, whatever its mask is", () => {
  const mask = { secret: "[hidden]", other: "[hidden]", open: 1 };
  const changes = listChanges(mask, mask, new Set(["secret", "other"]), new Set(["secret", "open"]));
  expect(changes.map((it) => [it.key, it.kind])).toEqual([["secret", "changed"]]);
});
