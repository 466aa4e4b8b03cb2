/** Replays of a run: begun, followed until they end, and what came of them. */
import { api, need, type Schemas } from "../../api/client";
import { ApiError } from "../../api/errors";
import type { RunDiff } from "../../ui/evals/RunDiffView";

/** The server leaves out what has its default. */
export type RecordedCall = Partial<Schemas["RecordedCall"]> & { id: string; tool: string };
export type RecordedStep = Partial<Omit<Schemas["RecordedStep"], "calls">> & { n: number; calls?: readonly RecordedCall[] };
export type Recording = { run: Partial<Schemas["RecordedRun"]> & { run_id: string; agent_id: string }; config: Partial<Schemas["RecordedConfig"]>; steps?: readonly RecordedStep[]; incomplete?: readonly string[] };
export type Divergence = Partial<Schemas["ReplayDivergence"]> & { step: number; kind: string };
export type ReplaySpec = Partial<Omit<Schemas["ReplaySpec"], "variant" | "tools">> & { variant?: Record<string, unknown>; tools?: Record<string, unknown> };
export type Replayed = { isSame: boolean; divergences: readonly Divergence[]; incomplete: readonly string[]; ended: string | null; replayed: Recording; diff: RunDiff | null };

const WAIT_MS = 20_000;

type Followed = { replay: { replay_id: string; status?: string; problem?: string | null; code?: string | null }; result?: { is_same: boolean; divergences?: readonly Divergence[]; incomplete?: readonly string[]; ended?: string | null; diff?: RunDiff } };
type Whole = { is_same: boolean; divergences?: readonly Divergence[]; incomplete?: readonly string[]; ended?: string | null; replayed: Recording };

const ofRun = (runId: string) => ({ params: { path: { run_id: runId } } });

export async function loadRecording(runId: string, signal?: AbortSignal): Promise<Recording> {
  return (await need(api.GET("/v1/runs/{run_id}/recording", { params: { path: { run_id: runId }, query: {} }, signal }))) as unknown as Recording;
}

/** Routes of replays, which the types of the API do not have yet. */
const untyped = api as unknown as { GET: (path: string, options: object) => Promise<{ data?: unknown; error?: unknown; response: Response }> };

/** Replays a run, and waits until it has ended; a replay that failed is thrown with its problem. */
export async function replayRun(runId: string, spec: ReplaySpec, signal: AbortSignal): Promise<Replayed> {
  const begun = (await need(api.POST("/v1/runs/{run_id}/replay", { ...ofRun(runId), body: spec as unknown as Schemas["ReplaySpec"], signal }))) as unknown as Whole | Followed;
  if ("replayed" in begun) return { isSame: begun.is_same, divergences: begun.divergences ?? [], incomplete: begun.incomplete ?? [], ended: begun.ended ?? null, replayed: begun.replayed, diff: null };
  return follow(runId, begun, signal);
}

async function follow(runId: string, begun: Followed, signal: AbortSignal): Promise<Replayed> {
  const path = { run_id: runId, replay_id: begun.replay.replay_id };
  let now = begun;
  while ((now.replay.status ?? "running") === "running") {
    now = (await need(untyped.GET("/v1/runs/{run_id}/replays/{replay_id}", { params: { path, query: { wait_ms: WAIT_MS } }, signal }))) as Followed;
  }
  const { result } = now;
  if (result === undefined) throw new ApiError(422, { error: now.replay.problem ?? "", code: now.replay.code ?? "cannot_replay" }, null);
  const replayed = (await need(untyped.GET("/v1/runs/{run_id}/replays/{replay_id}/recording", { params: { path }, signal }))) as Recording;
  return { isSame: result.is_same, divergences: result.divergences ?? [], incomplete: result.incomplete ?? [], ended: result.ended ?? null, replayed, diff: result.diff ?? null };
}
