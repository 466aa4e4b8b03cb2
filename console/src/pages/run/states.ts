/** What a step changed in the state of its run and thread. Pure. */

export type Values = Readonly<Record<string, unknown>>;
export type StateChange = { key: string; kind: "added" | "changed" | "removed"; before: unknown; after: unknown };

/** Compares the keys of two values. Of a masked key the values do not tell whether it changed; `changed` has the names of those that did. */
export function listChanges(before: Values, after: Values, masked: ReadonlySet<string> = new Set(), changed: ReadonlySet<string> = new Set()): StateChange[] {
  const changes: StateChange[] = [];
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const wasThere = Object.hasOwn(before, key);
    const isThere = Object.hasOwn(after, key);
    if (wasThere && isThere && masked.has(key) && !changed.has(key)) continue;
    if (wasThere && isThere && !masked.has(key) && JSON.stringify(before[key]) === JSON.stringify(after[key])) continue;
    changes.push({ key, kind: !wasThere ? "added" : isThere ? "changed" : "removed", before: before[key], after: after[key] });
  }
  return changes.sort((a, b) => a.key.localeCompare(b.key));
}
