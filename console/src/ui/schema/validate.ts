/** Checks a value against a JSON Schema, without `eval`, which the page's policy forbids. */
import { Validator, type OutputUnit } from "@cfworker/json-schema";

import { roundNumbers } from "../../api/exactJson";
import { forms } from "../../texts/forms";
import type { FieldProblem, JsonSchema } from "./model";

/** Keywords that only say where an inner problem is; the inner one has the message. */
const OUTER = new Set(["properties", "items", "additionalProperties", "anyOf", "oneOf", "allOf", "$ref", "if", "then", "else"]);

/** What is missing is a problem of its own field, not of the object around it. */
function readProblem({ keyword, instanceLocation, error }: OutputUnit): FieldProblem {
  const place = instanceLocation.replace(/^#\/?/, "");
  const missing = keyword === "required" ? /required property "(.+)"/.exec(error)?.[1] : undefined;
  if (missing !== undefined) return { path: place === "" ? missing : `${place}/${missing}`, message: forms.needed };
  return { path: place, message: error.replace(/^Instance /, "The value ") };
}

export function validateValue(schema: JsonSchema, value: unknown): FieldProblem[] {
  let found: ReturnType<Validator["validate"]>;
  try {
    found = new Validator(schema as object, "2020-12", false).validate(roundNumbers(value));
  } catch {
    // A schema that cannot be used is the server's to judge: it checks every value again.
    return [];
  }
  const { valid, errors } = found;
  if (valid) return [];
  const inner = errors.filter((it) => !OUTER.has(it.keyword));
  return (inner.length > 0 ? inner : errors.slice(0, 1)).map(readProblem);
}
