import { expect, test, vi } from "vitest";

import { writeExact } from "../../api/exactJson";
import { readContext, takeContext } from "./runContext";

// The address of the server is read from the page, and there is none here.
vi.mock("../../api/address", () => ({ root: "" }));

const SCHEMA = { type: "object", properties: { name: { type: "string" }, level: { type: "integer" } }, required: ["name"] };

test("nothing written is no context, and an object keeps every digit", () => {
  expect(readContext("  \n")).toEqual({ value: undefined, problem: null });
  const { value, problem } = readContext('{"id": 12345678901234567890, "ratio": 1.0}');
  expect(problem).toBeNull();
  expect(writeExact(value)).toBe('{"id":12345678901234567890,"ratio":1.0}');
});

test("what is no JSON object is refused with the reason", async () => {
  for (const text of ["{", "[1]", "1", "null", '"a"']) await expect(takeContext(text, null)).rejects.toThrow("The context was not sent");
});

test("a context is held to the schema of its agent, and any object fits an agent without one", async () => {
  await expect(takeContext('{"name": "Ann", "more": 1}', SCHEMA)).resolves.toEqual({ name: "Ann", more: 1 });
  await expect(takeContext('{"level": 1}', SCHEMA)).rejects.toThrow("name");
  await expect(takeContext('{"name": "Ann", "level": "high"}', SCHEMA)).rejects.toThrow("level");
  await expect(takeContext('{"level": "high"}', null)).resolves.toEqual({ level: "high" });
});
