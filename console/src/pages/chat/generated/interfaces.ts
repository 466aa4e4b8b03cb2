/** Which interfaces the calls of a conversation show. Pure. */
import { roundNumbers } from "../../../api/exactJson";
import type { Call, Turn } from "../fold";
import { applyMessages, isFields, readMessages, type Surface, type Surfaces } from "./a2ui";

export type Interface = { kind: "a2ui"; surfaces: Surface[] } | { kind: "json-render"; spec: unknown } | { kind: "openui"; program: string };

export type Spec = { root: string; elements: Record<string, unknown> };

export function readSpec(given: unknown): Spec | null {
  return isFields(given) && typeof given.root === "string" && isFields(given.elements) ? { root: given.root, elements: given.elements } : null;
}

const JSON_RENDER = "generative-ui.json-render";
const OPENUI = "generative-ui.openui-lang";

function readOpenUi(call: Call): string | null {
  const activity = call.activities[OPENUI];
  if (isFields(call.result) && typeof call.result.program === "string") return call.result.program;
  return isFields(activity) && Array.isArray(activity.statements) ? activity.statements.map(String).join("\n") : null;
}

/** The interface that a call shows by itself; surfaces of A2UI need the calls before. */
export function findInterface(call: Call): Interface | null {
  const spec = call.name === "render_json_ui" && isFields(call.result) ? call.result.spec : call.activities[JSON_RENDER];
  if (spec !== undefined) return { kind: "json-render", spec };
  const program = call.name === "render_openui" || OPENUI in call.activities ? readOpenUi(call) : null;
  return program === null ? null : { kind: "openui", program };
}

/** Every interface by its call's key; surfaces belong to the thread, so that a call shows what the calls before made of them. */
export function collectInterfaces(turns: readonly Turn[]): Map<string, Interface> {
  const found = new Map<string, Interface>();
  let surfaces: Surfaces = {};
  for (const turn of turns) {
    if (turn.kind !== "assistant") continue;
    for (const call of turn.calls) {
      if (call.name === "render_a2ui" && call.arguments !== undefined && call.state !== "failed") {
        const applied = applyMessages(surfaces, readMessages(roundNumbers(call.arguments)));
        surfaces = applied.surfaces;
        found.set(keyOfCall(turn.id, call.id), { kind: "a2ui", surfaces: applied.touched.flatMap((it) => surfaces[it] ?? []) });
      } else {
        const own = findInterface(call);
        if (own !== null) found.set(keyOfCall(turn.id, call.id), own);
      }
    }
  }
  return found;
}

export const keyOfCall = (turnId: string, callId: string): string => `${turnId}/${callId}`;
