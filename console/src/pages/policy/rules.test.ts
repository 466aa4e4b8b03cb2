import { expect, it } from "vitest";

import { readArguments, readSection } from "./rules";

it("reads the arguments of a call", () => expect([readArguments(""), readArguments('{"a":1}'), readArguments("{")]).toEqual([{ value: {} }, { value: { a: 1 } }, undefined]));

it("finds the rules of an agent, and has some to begin with if it has none", () => {
  expect(readSection({ sections: { permission: { rules: [] } } })).toEqual({ rules: [] });
  expect(readSection({ sections: {} })).toEqual({ default_behavior: "ask", rules: [] });
  expect(readSection(undefined)).toEqual({ default_behavior: "ask", rules: [] });
});
