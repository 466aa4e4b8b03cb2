/** Reads what a person typed into a ticket. Pure. */

/** An answer is text, unless the question's schema asks for something else and the text is JSON. */
export function readAnswer(text: string, schema: Record<string, unknown> | null | undefined): unknown {
  if (schema === null || schema === undefined || schema.type === "string") return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** Edited arguments; `null` if they are not JSON. */
export function readArguments(text: string): { value: unknown } | null {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return null;
  }
}
