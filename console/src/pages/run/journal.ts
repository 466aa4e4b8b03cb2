/** The picture of a workflow's journal: steps in order, and the branches of those that have some. Pure. */
import type { Schemas } from "../../api/client";

export type Step = Schemas["StepView"];
export type Branch = { index: number; nodes: readonly Node[] };
/** A step of the picture; `step` is absent for a fork of which only the branches are recorded yet. */
export type Node = { path: string; step: Step | null; branches: readonly Branch[] };

type Draft = { path: string; step: Step | null; branches: Map<number, Map<number, Draft>> };

function getDraft(nodes: Map<number, Draft>, number: number, path: string): Draft {
  const found = nodes.get(number) ?? { path, step: null, branches: new Map() };
  nodes.set(number, found);
  return found;
}

function sortEntries<Value>(entries: Map<number, Value>): [number, Value][] {
  return [...entries].toSorted(([a], [b]) => a - b);
}

function finish(nodes: Map<number, Draft>): Node[] {
  return sortEntries(nodes).map(([, it]) => ({
    path: it.path,
    step: it.step,
    branches: sortEntries(it.branches).map(([index, inner]) => ({ index, nodes: finish(inner) })),
  }));
}

/**
 * Orders steps by their paths: `3.1.2` is the second step of the second branch of step 3. The journal has them in the order in which they were recorded,
 * which for branches is another one each time; the picture must not depend on it.
 */
export function drawJournal(steps: readonly Step[]): readonly Node[] {
  const top = new Map<number, Draft>();
  for (const step of steps) {
    const parts = step.path.split(".").map(Number);
    if (parts.length % 2 === 0 || parts.some((it) => !Number.isInteger(it))) continue;
    let nodes = top;
    for (let at = 0; at < parts.length; at += 2) {
      const node = getDraft(nodes, parts[at] ?? 0, parts.slice(0, at + 1).join("."));
      if (at === parts.length - 1) {
        node.step = step;
        break;
      }
      const branch = parts[at + 1] ?? 0;
      const inner = node.branches.get(branch) ?? new Map<number, Draft>();
      node.branches.set(branch, inner);
      nodes = inner;
    }
  }
  return finish(top);
}

export type NodeStatus = "running" | "waiting" | "done" | "failed";

/** The status of a step; a fork whose own end is not recorded is as its branches are. */
export function statusOf(node: Node): NodeStatus {
  if (node.step !== null && (node.branches.length === 0 || node.step.kind === "race")) return node.step.status as NodeStatus;
  const inner = node.branches.flatMap((it) => it.nodes.map(statusOf));
  for (const status of ["failed", "running", "waiting"] as const) if (inner.includes(status)) return status;
  return "done";
}
