import { expect, test } from "vitest";

import { describeField, fillDefaults, findChoice, findVariant, getAt, labelName, makeValue, messagesAt, problemsBelow, readChoice, setAt, type JsonSchema } from "./model";
import { validateValue } from "./validate";

const root: JsonSchema = {
  $ref: "#/$defs/Config",
  $defs: {
    Config: {
      type: "object",
      properties: {
        mode: { $ref: "#/$defs/Mode", default: "ask" },
        limit: { anyOf: [{ type: "integer", minimum: 1 }, { type: "null" }], default: null },
        on: { type: "array", items: { $ref: "#/$defs/Mode" } },
        names: { type: ["array", "null"], items: { type: "string" } },
        rules: { type: "array", items: { $ref: "#/$defs/Rule" } },
        stop: { anyOf: [{ $ref: "#/$defs/After" }, { $ref: "#/$defs/OnTool" }] },
        priors: { type: "object", additionalProperties: { type: "number" } },
        token: { writeOnly: true, anyOf: [{ type: ["string", "null"] }, { type: "object", properties: { $secret: { type: "string" } } }] },
        free: { type: "object" },
      },
      required: ["rules"],
    },
    Mode: { title: "Mode", enum: ["ask", "deny"] },
    Rule: { type: "object", properties: { tool: { type: "string" }, mode: { $ref: "#/$defs/Mode" } }, required: ["tool", "mode"] },
    After: { title: "After", type: "object", properties: { type: { enum: ["after"] }, rounds: { type: "integer" } }, required: ["type", "rounds"] },
    OnTool: { title: "OnTool", type: "object", properties: { type: { enum: ["on_tool"] }, name: { type: "string" } }, required: ["type", "name"] },
  },
};
const config = (root.$defs as Record<string, { properties: Record<string, JsonSchema> }>).Config!.properties;
const kindOf = (name: string) => describeField(config[name]!, root).kind;

test("each form of a schema has its field", () => {
  expect(describeField(root, root)).toMatchObject({ kind: "object" });
  expect(describeField(config.mode!, root)).toMatchObject({ kind: "choice", options: [{ value: "ask", label: "ask" }, { value: "deny", label: "deny" }], fallback: "ask" });
  expect(describeField(config.limit!, root)).toMatchObject({ kind: "number", isInteger: true, isNullable: true, minimum: 1 });
  expect(["on", "names", "rules", "stop", "priors", "free"].map(kindOf)).toEqual(["choices", "texts", "list", "union", "map", "json"]);
  expect(describeField(config.token!, root)).toMatchObject({ kind: "text", isSecret: true });
});

test("a new item has what it needs, and a variant is found by its tag", () => {
  expect(makeValue({ $ref: "#/$defs/Rule" }, root)).toEqual({ tool: "", mode: "ask" });
  const union = describeField(config.stop!, root);
  if (union.kind !== "union") throw new Error("no union");
  expect(union.variants.map((it) => it.label)).toEqual(["after", "on tool"]);
  expect(findVariant({ type: "on_tool", name: "x" }, union.variants, root)).toBe(1);
  expect(findVariant(7, union.variants, root)).toBe(-1);
  expect(makeValue(union.variants[1]!.schema, root)).toEqual({ type: "on_tool", name: "" });
});

test("a change keeps what the schema does not know, and removes what is taken away", () => {
  const value = { rules: [{ tool: "a", mode: "ask", other: 1 }], unknown: { x: 1 } };
  expect(setAt(value, ["rules", 0, "tool"], "b")).toEqual({ rules: [{ tool: "b", mode: "ask", other: 1 }], unknown: { x: 1 } });
  expect(setAt(value, ["rules", 0], undefined)).toEqual({ rules: [], unknown: { x: 1 } });
  expect(setAt(undefined, ["a", "b"], 1)).toEqual({ a: { b: 1 } });
  expect(getAt(value, ["rules", 0, "other"])).toBe(1);
  expect(value.rules[0]!.tool).toBe("a");
});

test("problems land on their field by path", () => {
  const problems = [{ path: "agents/a/sections/permission/rules/3/tool", message: "bad" }, { path: "agents/ab/model_id", message: "other" }];
  const below = problemsBelow(problems, "agents/a/sections/permission");
  expect(below).toEqual([{ path: "rules/3/tool", message: "bad" }]);
  expect(messagesAt(below, ["rules", 3, "tool"])).toEqual(["bad"]);
  expect(messagesAt(below, ["rules"])).toEqual([]);
});

test("constants with titles are choices, and a question begins with what its schema gives", () => {
  const question: JsonSchema = {
    type: "object",
    properties: {
      colour: { oneOf: [{ const: "r", title: "Red" }, { const: "b", title: "Blue" }] },
      tags: { type: "array", items: { enum: ["a", "b"], enumNames: ["Alpha", "Beta"] } },
      nights: { type: "integer", default: 3 },
      isSure: { type: "boolean" },
      note: { anyOf: [{ type: "string" }, { type: "null" }] },
    },
    required: ["isSure"],
  };
  const { colour, tags } = question.properties as Record<string, JsonSchema>;
  expect(describeField(colour!, question)).toMatchObject({ kind: "choice", options: [{ value: "r", label: "Red" }, { value: "b", label: "Blue" }] });
  expect(describeField(tags!, question)).toMatchObject({ kind: "choices", options: [{ value: "a", label: "Alpha" }, { value: "b", label: "Beta" }] });
  expect(fillDefaults(question)).toEqual({ nights: 3, isSure: false });
  expect(fillDefaults({ type: "string" })).toBeUndefined();
});

test("the browser finds what the server would refuse, without eval", () => {
  expect(validateValue(root, { rules: [] })).toEqual([]);
  expect(validateValue(root, { rules: [{ tool: 1, mode: "ask" }] }).map((it) => it.path)).toContain("rules/0/tool");
  expect(validateValue(root, {})).toEqual([{ path: "rules", message: "This is needed." }]);
});

test("names read as labels", () => {
  expect(labelName("timeout_ms")).toBe("Timeout (ms)");
  expect(labelName("model_id")).toBe("Model ID");
});

test("a hostile schema names what every object has, has no lists where lists belong, or names itself, and stays a schema", () => {
  const odd = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"string"}},"required":["__proto__"]}') as JsonSchema;
  const value = setAt(setAt({}, ["__proto__"], "a"), ["constructor"], "b") as Record<string, unknown>;
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  expect(JSON.stringify(value)).toBe('{"__proto__":"a","constructor":"b"}');
  expect(getAt({}, ["__proto__"])).toBeUndefined();
  expect(getAt({}, ["constructor"])).toBeUndefined();
  expect(JSON.stringify(makeValue(odd, odd))).toBe('{"__proto__":""}');
  expect(describeField({ anyOf: "x", oneOf: 5 }, {}).kind).toBe("json");
  expect(describeField({ anyOf: [5, null] }, {}).kind).toBe("union");
  const own: JsonSchema = { anyOf: [{ $ref: "#" }] };
  expect(() => describeField(own, own)).not.toThrow();
  const endless: JsonSchema = { type: "object", properties: { next: { $ref: "#" } }, required: ["next"] };
  expect(() => makeValue(endless, endless)).not.toThrow();
  expect(validateValue({ type: "string", pattern: "(" }, "x")).toEqual([]);
});

test("a choice of null is null, not its name", () => {
  const field = describeField({ enum: ["a", null, "null", 1, "1"] }, {});
  if (field.kind !== "choice") throw new Error("It is no choice.");
  for (const value of ["a", null, "null", 1, "1"]) expect(readChoice(field.options, findChoice(field.options, value) ?? "")).toBe(value);
  expect(findChoice(field.options, undefined)).toBeNull();
});
