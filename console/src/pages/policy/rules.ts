/** Rules as records and sections hold them. Pure. */

export type Behavior = "allow" | "ask" | "deny";
export type Rule = { tool: string; behavior: Behavior; scope?: string };

export function readRules(record: Readonly<Record<string, unknown>>): Rule[] {
  return Array.isArray(record.rules) ? (record.rules as Rule[]) : [];
}

/** Reads the arguments of a call: nothing is no arguments; `undefined` is not JSON. */
export function readArguments(text: string): { value: unknown } | undefined {
  if (text.trim() === "") return { value: {} };
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}

/** The section `permission` of an agent, or an empty one. */
export function readSection(agent: Readonly<Record<string, unknown>> | undefined): Record<string, unknown> {
  const sections = agent?.sections;
  const found = sections !== null && typeof sections === "object" ? (sections as Record<string, unknown>).permission : undefined;
  return found !== null && typeof found === "object" ? (found as Record<string, unknown>) : { default_behavior: "ask", rules: [] };
}
