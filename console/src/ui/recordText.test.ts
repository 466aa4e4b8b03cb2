import { describe, expect, it } from "vitest";

import { dropReadOnly, isRecordId, readObject } from "./recordText";

describe("the text of a record", () => {
  it("has no field that only the server writes", () =>
    expect(dropReadOnly({ id: "a", has_api_key: true, extra: 1 }, { properties: { id: {}, has_api_key: { readOnly: true } } })).toEqual({ id: "a", extra: 1 }));
  it("is read as an object only", () => {
    expect(readObject('{"a": 1}')).toEqual({ body: { a: 1 } });
    expect(readObject("[1]")).toEqual({ problem: "an object is needed" });
    expect(readObject("{")).toHaveProperty("problem");
  });
  it("knows which ids the server takes", () => expect(["a.b:c@d_e-1", "", "a/b", "ü"].map(isRecordId)).toEqual([true, false, false, false]));
});
