/** Why the model of an agent sees a tool or not. Pure. */

export type ToolReason = "rule" | "excluded" | "notAllowed" | "off" | "asks" | "default";
export type ExplainedTool = { id: string; isOffered: boolean; reason: ToolReason };
type Facts = {
  /** Every tool that could be meant, with or without the agent's lists. */
  known: readonly string[];
  candidates: readonly string[];
  denied: readonly string[];
  conditional: readonly string[];
  allowed: readonly string[] | null;
  excluded: readonly string[];
  switchedOff: readonly string[];
};

/** Whether a name or glob (`*`, `?`) matches a tool. */
export function matchesTool(pattern: string, tool: string): boolean {
  const source = pattern.replaceAll(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".");
  return new RegExp(`^${source}$`).test(tool);
}

export function isGlob(name: string): boolean {
  return /[*?[]/.test(name);
}

export function explainTools(facts: Facts): ExplainedTool[] {
  const ids = [...new Set([...facts.candidates, ...facts.known])].sort();
  return ids.flatMap((id): ExplainedTool[] => {
    if (facts.switchedOff.includes(id)) return [{ id, isOffered: false, reason: "off" }];
    if (facts.excluded.some((it) => matchesTool(it, id))) return [{ id, isOffered: false, reason: "excluded" }];
    if (facts.allowed !== null && !facts.allowed.some((it) => matchesTool(it, id))) return [{ id, isOffered: false, reason: "notAllowed" }];
    if (!facts.candidates.includes(id)) return [];
    if (facts.denied.includes(id)) return [{ id, isOffered: false, reason: "rule" }];
    return [{ id, isOffered: true, reason: facts.conditional.some((it) => matchesTool(it, id)) ? "asks" : "default" }];
  });
}

/** Names and globs stand in fields of their own in HTTP form; a person sees one list. */
export function splitNames(names: readonly string[] | null): { names: string[] | null; patterns: string[] | null } {
  if (names === null) return { names: null, patterns: null };
  const patterns = names.filter(isGlob);
  return { names: names.filter((it) => !isGlob(it)), patterns: patterns.length === 0 ? null : patterns };
}

/** Who calls whom, from one agent on; an agent that is met again on its own way ends there. */
export type DelegateNode = { id: string; isKnown: boolean; isLoop: boolean; children: DelegateNode[] };

export function listDelegates(id: string, delegates: ReadonlyMap<string, readonly string[]>, way: readonly string[] = []): DelegateNode {
  const isLoop = way.includes(id);
  const children = isLoop || way.length > 8 ? [] : (delegates.get(id) ?? []).map((it) => listDelegates(it, delegates, [...way, id]));
  return { id, isKnown: delegates.has(id), isLoop, children };
}

/** A guess at the size of a text in tokens: about four characters of English each, fewer of other scripts. */
export function estimateTokens(text: string): number {
  let units = 0;
  for (const char of text) units += char.charCodeAt(0) < 128 ? 0.25 : 0.7;
  return Math.ceil(units);
}
