/** Rules of the sections `guardrails` and `reminder` as their editors read and write them. Fields that an editor does not know stay. Pure. */
import { isObject, type Json, type JsonObject } from "../../ui/schema/model";

/** The rules of a section; `standard` are those that hold while it names none. */
export function readRules(section: JsonObject, standard: readonly JsonObject[] = []): readonly JsonObject[] {
  return Array.isArray(section.rules) ? (section.rules as Json[]).filter(isObject) : standard;
}

export function moveRule(rules: readonly JsonObject[], index: number, by: -1 | 1): JsonObject[] {
  const moved = [...rules];
  const [rule] = moved.splice(index, 1);
  if (rule !== undefined) moved.splice(index + by, 0, rule);
  return moved;
}

/** What guardrails do when their section says nothing. */
export const STANDARD_GUARD: JsonObject = { name: "secrets", on: ["input", "output", "tool_results"], detect: ["secrets"] };

/** A name that no other rule has. */
export function nameFreely(rules: readonly JsonObject[], wanted: string): string {
  const taken = new Set(rules.map((it) => it.name));
  if (!taken.has(wanted)) return wanted;
  let count = 2;
  while (taken.has(`${wanted}-${count}`)) count += 1;
  return `${wanted}-${count}`;
}

export type FieldCondition = { path: string; op: string; value: string };
/** Which results a reminder follows: those of a status, with a text, or with values in fields. */
export type OutputForm = { status: string; text: string; fields: readonly FieldCondition[] };

export function readOutput(output: Json | undefined): OutputForm {
  if (!isObject(output)) return { status: "any", text: "", fields: [] };
  const { content } = output;
  const fields = isObject(content) && Array.isArray(content.fields) ? (content.fields as Json[]).filter(isObject) : [];
  return {
    status: typeof output.status === "string" ? output.status : "any",
    text: typeof content === "string" ? content : "",
    fields: fields.map((it) => ({ path: String(it.path ?? ""), op: String(it.op ?? "glob"), value: String(it.value ?? "") })),
  };
}

/** The same as the server takes it: conditions on fields go before a text, and no condition at all is `any`. */
export function writeOutput({ status, text, fields }: OutputForm): Json {
  const content: Json = fields.length > 0 ? { fields: fields.map((it) => ({ ...it })) } : text === "" ? null : text;
  if (status === "any" && content === null) return "any";
  return { status, ...(content === null ? {} : { content }) };
}
