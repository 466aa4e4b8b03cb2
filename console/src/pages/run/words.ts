/** Why a run is as it is, in words. Pure. */
import type { Schemas } from "../../api/client";

type Run = Schemas["RunView"];

const WAITS: Record<Schemas["WaitingReason"], string> = {
  tool_permission: "It waits until a person decides on a tool call.",
  user_input: "It waits for an answer of a person.",
  background_tasks: "It waits for its background tasks; they wake it.",
  external_event: "It waits for something outside of it.",
  rate_limit: "It waits until the model takes requests again.",
  manual_pause: "It was paused by hand.",
  workflow_diverged: "Its code differs from its journal: nothing is executed.",
  pinned_config_unusable: "No process can use its agent as its publication configures it. Repin or cancel it.",
};
const CANCELS: Record<string, string> = {
  user: "A person cancelled it.",
  caller: "Its caller cancelled it.",
  shutdown: "It was cancelled because its process shut down.",
  interrupt: "A newer message interrupted it.",
  superseded: "Newer input superseded it.",
};

function describeEnd(end: NonNullable<Run["termination"]>): string {
  switch (end.type) {
    case "natural_end": return "The model answered without further calls.";
    case "behavior_requested": return "A plugin ended it on purpose.";
    case "stopped": return `A stop condition held: ${end.value.code.replaceAll("_", " ")}${end.value.detail == null ? "" : ` (${end.value.detail})`}.`;
    case "cancelled": return CANCELS[end.cause] ?? "It was cancelled.";
    case "blocked": return `It was blocked: ${end.value}`;
    case "suspended": return "It is suspended.";
    case "error": return `It failed with ${end.code}: ${end.value}`;
  }
}

/** One sentence: what the run does, what it waits for, or why it ended. */
export function describeRun(run: Pick<Run, "status" | "termination" | "waiting" | "steps"> & { is_workflow?: boolean }): string {
  switch (run.status) {
    case "created": return "It is queued until a worker takes it.";
    case "running": return `It executes step ${run.steps + 1}.`;
    case "waiting": {
      const { waiting } = run;
      if (waiting == null) return "It waits.";
      if (waiting.diverged != null) return `Its code differs from its journal at step ${waiting.diverged.step}: nothing is executed.`;
      const detail = waiting.problem ?? waiting.question ?? null;
      return `${WAITS[waiting.reason]}${detail === null ? "" : ` ${detail}`}`;
    }
    case "done":
      if (run.is_workflow === true && run.termination?.type === "natural_end") return "The workflow returned.";
      return run.termination == null ? "It ended." : describeEnd(run.termination);
  }
}

/** The status to show: an end that is no success has a look of its own. */
export function lookOf(run: Pick<Run, "status" | "termination">): string {
  const end = run.termination?.type;
  if (run.status !== "done" || end === undefined) return run.status;
  if (end === "error" || end === "blocked") return "failed";
  if (end === "cancelled") return "cancelled";
  return end === "stopped" ? "stopped" : "done";
}
