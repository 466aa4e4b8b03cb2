import { describe, expect, it } from "vitest";

import { compareFields, isCompareByLine, writeValue } from "./compare";

describe("compareFields", () => {
  it("finds nothing in equal objects", () => expect(compareFields({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] })).toEqual([]));
  it("names fields by their path, as deep as both sides are objects", () =>
    expect(compareFields({ a: { b: 1, c: 2 }, d: [1] }, { a: { b: 1, c: 3 }, d: [2] })).toEqual([
      { path: "a/c", live: 2, mine: 3 },
      { path: "d", live: [1], mine: [2] },
    ]));
  it("shows every field of an object that was made or deleted", () => {
    expect(compareFields(undefined, { id: "x" })).toEqual([{ path: "id", live: undefined, mine: "x" }]);
    expect(compareFields({ id: "x" }, null)).toEqual([{ path: "id", live: "x", mine: undefined }]);
  });
  it("does not look into an object that replaces a value of another kind", () =>
    expect(compareFields({ a: 1 }, { a: { b: 1 } })).toEqual([{ path: "a", live: 1, mine: { b: 1 } }]));
});

describe("how values are shown", () => {
  it("keeps texts as they are", () => expect([writeValue("a\nb"), writeValue(undefined), writeValue(null)]).toEqual(["a\nb", "", "null"]));
  it("compares long texts by line", () => expect([isCompareByLine("a", "b"), isCompareByLine("a\nb", "b"), isCompareByLine({ a: 1 }, null)]).toEqual([false, true, true]));
});
