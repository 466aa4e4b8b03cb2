/** What an edit of a thread's fields sends: only what changed. Pure. */
import type { Schemas } from "../../api/client";

export type ThreadFields = { title: string; owner: string; custom: string };
export type ThreadEdit = { title?: string | null; resource_id?: string | null; custom?: Record<string, unknown> };

export function readFieldsOf(thread: Schemas["NativeThreadView"]): ThreadFields {
  return { title: thread.metadata.title ?? "", owner: thread.resource_id ?? "", custom: JSON.stringify(thread.metadata.custom, null, 2) };
}

export function parseCustom(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text.trim() === "" ? "{}" : text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** The change from what the server has to what was typed; a key that is gone is sent as null. Null if the custom data is no object. */
export function buildEdit(before: ThreadFields, typed: ThreadFields): ThreadEdit | null {
  const old = parseCustom(before.custom) ?? {};
  const custom = parseCustom(typed.custom);
  if (custom === null) return null;
  const changed = Object.entries(custom).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(old[name]));
  const gone = Object.keys(old).filter((it) => !(it in custom) && old[it] !== null).map((it): [string, null] => [it, null]);
  const edit: ThreadEdit = {};
  if (typed.title !== before.title) edit.title = typed.title.trim() === "" ? null : typed.title;
  if (typed.owner !== before.owner) edit.resource_id = typed.owner.trim() === "" ? null : typed.owner;
  if (changed.length + gone.length > 0) edit.custom = Object.fromEntries([...changed, ...gone]);
  return edit;
}
