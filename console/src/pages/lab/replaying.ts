/** Replays of a run: begun, followed until they end, and what came of them. */
import { api, need, type Schemas } from "../../api/client";
import { ApiError } from "../../api/errors";
import { lab as texts } from "../../texts/lab";
import type { RunDiff } from "../../ui/evals/RunDiffView";

/** The server leaves out what has its default. */
export type RecordedCall = Partial<Schemas["RecordedCall"]> & { id: string; tool: string };
export type RecordedStep = Partial<Omit<Schemas["RecordedStep"], "calls">> & { n: number; calls?: readonly RecordedCall[] };
export type Recording = { run: Partial<Schemas["RecordedRun"]> & { run_id: string; agent_id: string }; config: Partial<Schemas["RecordedConfig"]>; steps?: readonly RecordedStep[]; incomplete?: readonly string[] };
export type Divergence = Partial<Schemas["ReplayDivergence"]> & { step: number; kind: string };
export type ReplaySpec = Partial<Omit<Schemas["ReplaySpec"], "variant" | "tools">> & { variant?: Record<string, unknown>; tools?: Record<string, unknown> };
export type Replayed = { isSame: boolean; divergences: readonly Divergence[]; incomplete: readonly string[]; ended: string | null; replayed: Recording; diff: RunDiff | null };

const WAIT_MS = 20_000;

const ofRun = (runId: string) => ({ params: { path: { run_id: runId } } });

export async function loadRecording(runId: string, signal?: AbortSignal): Promise<Recording> {
  return (await need(api.GET("/v1/runs/{run_id}/recording", { params: { path: { run_id: runId }, query: {} }, signal }))) as unknown as Recording;
}

/** Replays a run, and waits until it has ended; a replay that failed is thrown with its problem. One that is not waited for any more is cancelled. */
export async function replayRun(runId: string, spec: ReplaySpec, signal: AbortSignal): Promise<Replayed> {
  let now = await need(api.POST("/v1/runs/{run_id}/replay", { ...ofRun(runId), body: spec as unknown as Schemas["ReplaySpec"], signal }));
  const path = { run_id: runId, replay_id: now.replay.replay_id };
  try {
    while (now.replay.status === "running") now = await need(api.GET("/v1/runs/{run_id}/replays/{replay_id}", { params: { path, query: { wait_ms: WAIT_MS } }, signal }));
  } catch (error) {
    if (signal.aborted) await need(api.POST("/v1/runs/{run_id}/replays/{replay_id}/cancel", { params: { path } }));
    throw error;
  }
  const { result } = now;
  if (result == null) throw new ApiError(422, { error: now.replay.problem ?? texts.failed, code: now.replay.code ?? "cannot_replay" }, null);
  const replayed = (await need(api.GET("/v1/runs/{run_id}/replays/{replay_id}/recording", { params: { path, query: {} }, signal }))) as unknown as Recording;
  return { isSame: result.is_same, divergences: (result.divergences ?? []) as readonly Divergence[], incomplete: result.incomplete ?? [], ended: result.ended ?? null, replayed, diff: (result.diff ?? null) as RunDiff | null };
}
