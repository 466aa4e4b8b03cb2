/** Records and their changes: what a change leaves, and how a record is written. Pure. */
import { isObject, type Json, type JsonObject } from "../ui/schema/model";
import { ExactNumber } from "./exactJson";
import type { Schemas } from "./client";
import type { Namespace, RecordWrite } from "./config";

type Draft = Schemas["DraftView"];
type DraftChange = Draft["changes"][number];

/** The draft that a person goes on with: their latest that has the record, else their latest. Pure. */
export function pickDraft(drafts: readonly Schemas["DraftSummary"][], person: string, namespace: Namespace, id: string): Schemas["DraftSummary"] | undefined {
  const own = drafts.filter((it) => it.editors.includes(person)).sort((a, b) => b.updated_at - a.updated_at);
  return own.find((it) => it.changes.some((change) => change.ns === namespace && change.id === id)) ?? own[0];
}

export function findChange(draft: Draft | null, namespace: Namespace, id: string): DraftChange | undefined {
  return draft?.changes.find((it) => it.ns === namespace && it.id === id);
}

/** The record that a change leaves, over what is live. Pure. */
export function applyChange(live: JsonObject | null, change: DraftChange | undefined): JsonObject | null {
  if (change === undefined) return live;
  switch (change.type) {
    case "put": return change.spec as JsonObject;
    case "delete": return null;
    case "patch": {
      const overrides = change.overrides as JsonObject;
      const sections = { ...readSections(live), ...readSections(overrides) };
      const { sections: _sections, ...rest } = overrides;
      return { ...live, ...rest, sections: Object.fromEntries(Object.entries(sections).filter(([, it]) => it !== null)) };
    }
  }
}

function readSections(value: JsonObject | null): JsonObject {
  return isObject(value?.sections) ? value.sections : {};
}

export function isSame(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (a instanceof ExactNumber || b instanceof ExactNumber) return a instanceof ExactNumber && b instanceof ExactNumber && a.text === b.text;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((it, index) => isSame(it as Json, b[index] as Json));
  if (!isObject(a) || !isObject(b)) return false;
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].every((it) => isSame(a[it], b[it]));
}

const NOT_OVERRIDDEN = new Set(["id", "registry", "created_at", "updated_at", "backend"]);

/** The overrides that make what is live into what is wanted: only fields that differ; sections by key. Pure. */
export function makeOverrides(live: JsonObject, mine: JsonObject): JsonObject {
  const overrides: Record<string, Json> = {};
  for (const name of new Set([...Object.keys(live), ...Object.keys(mine)])) {
    if (NOT_OVERRIDDEN.has(name) || name === "sections" || isSame(live[name], mine[name])) continue;
    overrides[name] = mine[name] ?? null;
  }
  const before = readSections(live), after = readSections(mine);
  const sections = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((it) => !isSame(before[it], after[it]));
  if (sections.length > 0) overrides.sections = Object.fromEntries(sections.map((it) => [it, after[it] ?? null]));
  return overrides;
}

/** Fields of every record that only the server writes. */
const ADDED = ["created_at", "updated_at"];

export function stripAdded(spec: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(spec).filter(([name]) => !ADDED.includes(name)));
}

/** How a record of this owner is written: as a whole, or as overrides on the code's. */
export function makeWrite(owner: string | undefined, live: JsonObject | null, mine: JsonObject): RecordWrite {
  const isOfCode = owner === "code" || owner === "override";
  return isOfCode && live !== null ? { overrides: makeOverrides(live, mine) } : { spec: stripAdded(mine) };
}
