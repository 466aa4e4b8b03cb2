import { describe, expect, it } from "vitest";

import { buildValue, readFields, startForm } from "./schemaForm";

const SCHEMA = {
  type: "object",
  properties: {
    name: { type: "string", title: "Name" },
    count: { type: "integer", default: 3 },
    isSure: { type: "boolean" },
    colour: { enum: ["red", "blue"] },
    tags: { type: "array", items: { enum: ["a", "b"] } },
    note: { anyOf: [{ type: "string" }, { type: "null" }] },
    deep: { type: "object" },
  },
  required: ["name"],
};

describe("the form of a schema", () => {
  const fields = readFields(SCHEMA, {});

  it("has a field of the right kind for each property", () => {
    expect(fields.map((it) => it.kind)).toEqual(["text", "integer", "boolean", "choice", "choices", "text", "json"]);
  });

  it("makes the value, without optional fields that are empty and with properties that it does not know", () => {
    const typed = { ...startForm(fields, { name: "x", other: 1 }), isSure: "true", colour: '"red"' };
    expect(buildValue(fields, typed, { name: "x", other: 1 })).toEqual({ value: { name: "x", other: 1, count: 3, isSure: true, colour: "red" }, problems: {} });
  });

  it("puts problems on their fields", () => {
    expect(buildValue(fields, { name: "x", count: "1.5", deep: "{" }, {}).problems).toEqual({ count: "This needs a whole number.", deep: "This is no JSON." });
  });

  it("is one field for a schema that is no object", () => {
    const one = readFields({ type: "number" }, undefined);
    expect(buildValue(one, { "": "2" }, undefined)).toEqual({ value: 2, problems: {} });
  });
});
