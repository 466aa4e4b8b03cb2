/** The exported state of a run over its steps, from the events that carry it. Pure. */

export type StateEntry = { step: number; at: number; event: { event_type: "state_snapshot"; snapshot: unknown } | { event_type: "state_delta"; delta: readonly unknown[] } };
export type StateChange = { key: string; kind: "added" | "changed" | "removed"; before: unknown; after: unknown };
export type StepState = { step: number; at: number; value: unknown; changes: StateChange[] };

type Operation = { op?: unknown; path?: unknown; from?: unknown; value?: unknown };
type Holder = Record<string, unknown> | unknown[];

function readPointer(path: unknown): string[] {
  if (typeof path !== "string" || path === "") return [];
  return path.split("/").slice(1).map((it) => it.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function isHolder(value: unknown): value is Holder {
  return typeof value === "object" && value !== null;
}

function readAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, key) => (isHolder(at) ? (at as Record<string, unknown>)[key] : undefined), value);
}

/** A copy of a value in which one place holds another value, or nothing. */
function withAt(value: unknown, path: readonly string[], change: { value: unknown } | null): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return change?.value;
  const copy: Holder = Array.isArray(value) ? [...(value as unknown[])] : { ...(isHolder(value) ? value : {}) };
  if (Array.isArray(copy)) {
    const index = key === "-" ? copy.length : Number(key);
    if (rest.length > 0) copy[index] = withAt(copy[index], rest, change);
    else if (change === null) copy.splice(index, 1);
    else copy.splice(index, 0, change.value);
    return copy;
  }
  if (rest.length > 0) copy[key] = withAt(copy[key], rest, change);
  else if (change === null) delete copy[key];
  else Object.defineProperty(copy, key, { value: change.value, enumerable: true, configurable: true, writable: true });
  return copy;
}

/** Applies a JSON patch (RFC 6902); what it cannot be applied to stays as it is. */
export function applyPatch(value: unknown, patch: readonly unknown[]): unknown {
  return patch.reduce<unknown>((now, it) => {
    const { op, path, from, value: given } = (isHolder(it) ? it : {}) as Operation;
    const place = readPointer(path);
    switch (op) {
      case "add": return withAt(now, place, { value: given });
      case "remove": return withAt(now, place, null);
      case "replace": return place.length === 0 ? given : withAt(Array.isArray(readAt(now, place.slice(0, -1))) ? withAt(now, place, null) : now, place, { value: given });
      case "copy": return withAt(now, place, { value: readAt(now, readPointer(from)) });
      case "move": return withAt(withAt(now, readPointer(from), null), place, { value: readAt(now, readPointer(from)) });
      default: return now;
    }
  }, value);
}

/** Compares the keys of two values. */
export function listChanges(before: unknown, after: unknown): StateChange[] {
  const old = isHolder(before) ? (before as Record<string, unknown>) : {};
  const now = isHolder(after) ? (after as Record<string, unknown>) : {};
  const changes: StateChange[] = [];
  for (const key of new Set([...Object.keys(old), ...Object.keys(now)])) {
    const wasThere = Object.hasOwn(old, key);
    const isThere = Object.hasOwn(now, key);
    if (wasThere && isThere && JSON.stringify(old[key]) === JSON.stringify(now[key])) continue;
    changes.push({ key, kind: !wasThere ? "added" : isThere ? "changed" : "removed", before: old[key], after: now[key] });
  }
  return changes.sort((a, b) => a.key.localeCompare(b.key));
}

/** The state after each step that tells it, and what changed since the one before. */
export function foldStates(entries: readonly StateEntry[]): StepState[] {
  const found: StepState[] = [];
  let value: unknown = {};
  for (const { step, at, event } of entries) {
    value = event.event_type === "state_snapshot" ? event.snapshot : applyPatch(value, event.delta);
    const last = found.at(-1);
    if (last?.step === step) found.pop();
    const before = found.at(-1)?.value ?? {};
    found.push({ step, at, value, changes: listChanges(before, value) });
  }
  return found;
}
