/** What a step changed in the state of its run and thread. Pure. */

export type Values = Readonly<Record<string, unknown>>;
export type StateChange = { key: string; kind: "added" | "changed" | "removed"; before: unknown; after: unknown };

/** Compares the keys of two values. */
export function listChanges(before: Values, after: Values): StateChange[] {
  const changes: StateChange[] = [];
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const wasThere = Object.hasOwn(before, key);
    const isThere = Object.hasOwn(after, key);
    if (wasThere && isThere && JSON.stringify(before[key]) === JSON.stringify(after[key])) continue;
    changes.push({ key, kind: !wasThere ? "added" : isThere ? "changed" : "removed", before: before[key], after: after[key] });
  }
  return changes.sort((a, b) => a.key.localeCompare(b.key));
}
