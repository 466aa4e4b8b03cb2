import { describe, expect, it } from "vitest";

import { buildEdit } from "./edits";

const BEFORE = { title: "Old", owner: "ann", custom: '{"a":1,"b":[2]}' };

describe("an edit of a thread", () => {
  it("sends only what changed", () => {
    expect(buildEdit(BEFORE, { ...BEFORE, custom: '{ "a": 1, "b": [2] }' })).toEqual({});
    expect(buildEdit(BEFORE, { title: "New", owner: "", custom: '{"a":2}' })).toEqual({ title: "New", resource_id: null, custom: { a: 2, b: null } });
  });

  it("refuses custom data that is no object", () => {
    expect(buildEdit(BEFORE, { ...BEFORE, custom: "[1]" })).toBeNull();
    expect(buildEdit(BEFORE, { ...BEFORE, custom: "{" })).toBeNull();
  });
});
