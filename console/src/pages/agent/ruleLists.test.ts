import { expect, test } from "vitest";

import type { Json } from "../../ui/schema/model";
import { moveRule, nameFreely, readOutput, readRules, STANDARD_GUARD, writeOutput } from "./ruleLists";

test("a section without rules has the standard ones; one with an empty list has none", () => {
  expect(readRules({}, [STANDARD_GUARD])).toEqual([STANDARD_GUARD]);
  expect(readRules({ rules: [] }, [STANDARD_GUARD])).toEqual([]);
});

test("rules move by one, and new ones have a name of their own", () => {
  const rules = [{ name: "a" }, { name: "b" }, { name: "c" }];
  expect(moveRule(rules, 2, -1).map((it) => it.name)).toEqual(["a", "c", "b"]);
  expect(moveRule(rules, 0, 1).map((it) => it.name)).toEqual(["b", "a", "c"]);
  expect(nameFreely(rules, "d")).toBe("d");
  expect(nameFreely([...rules, { name: "a-2" }], "a")).toBe("a-3");
});

test("the results of a reminder come back as they were written", () => {
  const outputs: Json[] = ["any", { status: "error" }, { status: "any", content: "*failed*" }, { status: "success", content: { fields: [{ path: "exit_code", op: "not_exact", value: "0" }] } }];
  for (const output of outputs) {
    expect(writeOutput(readOutput(output))).toEqual(output);
  }
  expect(readOutput({ content: { fields: [{ path: "a", value: "1" }] } })).toEqual({ status: "any", text: "", fields: [{ path: "a", op: "glob", value: "1" }] });
});
