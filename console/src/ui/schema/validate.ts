/** Checks a value against a JSON Schema, without `eval`, which the page's policy forbids. */
import { Validator } from "@cfworker/json-schema";

import type { FieldProblem, JsonSchema } from "./model";

/** Keywords that only say where an inner problem is; the inner one has the message. */
const OUTER = new Set(["properties", "items", "additionalProperties", "anyOf", "oneOf", "allOf", "$ref", "if", "then", "else"]);

export function validateValue(schema: JsonSchema, value: unknown): FieldProblem[] {
  const { valid, errors } = new Validator(schema as object, "2020-12", false).validate(value);
  if (valid) return [];
  const problems = errors
    .filter((it) => !OUTER.has(it.keyword))
    .map((it) => ({ path: it.instanceLocation.replace(/^#\/?/, ""), message: it.error.replace(/^Instance /, "The value ") }));
  return problems.length > 0 ? problems : errors.slice(0, 1).map((it) => ({ path: it.instanceLocation.replace(/^#\/?/, ""), message: it.error }));
}
