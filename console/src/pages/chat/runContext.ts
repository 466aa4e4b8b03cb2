/** The context of a run as a person writes it: JSON, kept for each pane, sent with every start. */
import { parseExact } from "../../api/exactJson";
import { chat as texts } from "../../texts/chat";
import { loadPart } from "../../ui/loadPart";
import { isObject, type JsonObject, type JsonSchema } from "../../ui/schema/model";

/** Where the context of a pane is kept; a conversation that gets its address keeps it. */
export const contextPlace = (isFirst: boolean): string => `chat.context.${isFirst ? "first" : "second"}`;

export type WrittenContext = { value: JsonObject | undefined; problem: string | null };

/** Reads what was written: nothing is no context; its numbers keep their digits. */
export function readContext(text: string): WrittenContext {
  if (text.trim() === "") return { value: undefined, problem: null };
  try {
    const value = parseExact(text, true);
    return isObject(value) ? { value, problem: null } : { value: undefined, problem: texts.contextNoObject };
  } catch {
    return { value: undefined, problem: texts.contextNoJson };
  }
}

/** Gives the context to send. Throws what is wrong with it, so that what was typed stays. */
export async function takeContext(text: string, schema: JsonSchema | null): Promise<JsonObject | undefined> {
  const { value, problem } = readContext(text);
  if (problem !== null) throw new Error(texts.contextRefused(problem));
  if (value === undefined || schema === null) return value;
  const { validateValue } = await loadPart(() => import("../../ui/schema/validate"));
  const [first] = validateValue(schema, value);
  if (first !== undefined) throw new Error(texts.contextRefused(`${first.path} ${first.message}`.trim()));
  return value;
}
