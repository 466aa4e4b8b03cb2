/** The agent on the page: what is live, what the draft has, what was typed; typed text is saved in the draft after a second. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";

import { loadFacts, loadRecord, type RecordFacts } from "../../api/config";
import { applyChange, createDraft, draftsQuery, dropRecord, fetchDrafts, findChange, isSame, loadDraft, makeWrite, pickDraft, publishDraft, rebaseDraft, saveRecord, type Draft, type Preference } from "../../api/drafts";
import { ApiError, isConflict, isGone, type Problem } from "../../api/errors";
import { callerQuery, refreshKinds } from "../../api/queries";
import { agent as texts } from "../../texts/agent";
import { records } from "../../texts/records";
import type { JsonObject } from "../../ui/schema/model";
import { useLeaveGuard } from "../../ui/useLeaveGuard";
import { isRebaseNeeded } from "../changes/conflicts";
import { compareVersions, mergeVersions } from "../../ui/merge/merge";

export type SaveState = "clean" | "dirty" | "saving" | "saved" | "refused" | "conflict" | "failed";
export type Conflict = { base: JsonObject; theirs: JsonObject; mine: JsonObject; draft: Draft | null };

const AUTOSAVE_MS = 1_000;

/** What the page knows of the server: the versions that a save compares with. */
type Known = { live: JsonObject | null; meta: RecordFacts | undefined; draft: Draft | null; base: JsonObject };

export function useAgentEditor(agentId: string, draftId: string | undefined, onDraft: (id: string | undefined) => void) {
  const cache = useQueryClient();
  const caller = useQuery(callerQuery);
  const [mine, setMine] = useState<JsonObject | null>(null);
  const [state, setState] = useState<SaveState>("clean");
  const [problems, setProblems] = useState<readonly Problem[]>([]);
  const [conflict, setConflict] = useState<Conflict | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [known, setKnown] = useState<Known | null>(null);
  // Saves run one after the other and look at the latest of these, not at those of the render that asked.
  const latest = useRef({ mine, known, state, draftId });
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const queue = useRef<Promise<void>>(Promise.resolve());
  const remember = useCallback((change: Partial<{ mine: JsonObject; known: Known; state: SaveState }>) => {
    latest.current = { ...latest.current, ...change };
    if (change.mine !== undefined) setMine(change.mine);
    if (change.known !== undefined) setKnown(change.known);
    if (change.state !== undefined) setState(change.state);
  }, []);
  latest.current.draftId = draftId;

  const load = useCallback(async () => {
    const person = (await cache.fetchQuery({ ...callerQuery })).id;
    const orNull = async <T,>(asked: Promise<T>): Promise<T | null> => asked.catch((caught: unknown) => { if (isGone(caught)) return null; throw caught; });
    const live = await orNull(loadRecord("agents", agentId));
    const meta = live === null ? undefined : await loadFacts("agents", agentId);
    const wanted = latest.current.draftId ?? pickDraft(await fetchDrafts(), person, "agents", agentId)?.id;
    const draft = wanted === undefined ? null : await orNull(loadDraft(wanted));
    const base = applyChange(live, findChange(draft, "agents", agentId)) ?? live;
    if (base === null) throw new ApiError(404, { error: "unknown", code: "unknown_agent" }, null);
    remember({ mine: base, known: { live, meta, draft, base }, state: "clean" });
    setProblems([]);
    onDraft(draft?.id);
  }, [agentId, cache, onDraft, remember]);

  useEffect(() => {
    setError(null);
    load().catch(setError);
  }, [load]);

  /** Keeps what the server answered to a save. */
  const settle = useCallback((draft: Draft, sent: JsonObject) => {
    const now = latest.current;
    if (now.known === null) return;
    remember({ known: { ...now.known, draft, base: sent }, state: now.mine === sent ? "saved" : "dirty" });
    setProblems([]);
    setConflict(null);
    onDraft(draft.id);
    void cache.invalidateQueries({ queryKey: draftsQuery.queryKey });
  }, [cache, onDraft, remember]);

  /** Writes what is typed; a draft that moved on is merged where the same field was not changed by both. */
  const write = useCallback(async (sent: JsonObject, from: Draft | null): Promise<void> => {
    const { known } = latest.current;
    if (known === null) return;
    const draft = from ?? (await createDraft(records.defaultDraftTitle(agentId)));
    const body = makeWrite(known.meta?.owner, known.live, sent);
    const isEmpty = "overrides" in body && Object.keys(body.overrides).length === 0;
    if (isEmpty && findChange(draft, "agents", agentId) === undefined) return settle(draft, sent);
    try {
      settle(isEmpty ? await dropRecord(draft, "agents", agentId) : await saveRecord(draft, "agents", agentId, body), sent);
    } catch (caught) {
      if (isGone(caught)) return write(sent, null);
      if (!isConflict(caught)) throw caught;
      const theirs = await loadDraft(draft.id);
      const other = applyChange(known.live, findChange(theirs, "agents", agentId)) ?? known.base;
      const fields = compareVersions(known.base, other, sent);
      if (!fields.some((it) => it.isClash)) {
        const merged = mergeVersions(known.base, other, sent, () => "mine");
        if (!isSame(merged, sent)) remember({ mine: merged });
        return write(merged, theirs);
      }
      remember({ state: "conflict" });
      setConflict({ base: known.base, theirs: other, mine: sent, draft: theirs });
    }
  }, [agentId, remember, settle]);

  const save = useCallback((): Promise<void> => {
    clearTimeout(timer.current);
    const run = async () => {
      const { mine: sent, known, state: before } = latest.current;
      if (sent === null || known === null || before === "conflict" || isSame(sent, known.base)) {
        if (before === "dirty") remember({ state: "saved" });
        return;
      }
      remember({ state: "saving" });
      try {
        await write(sent, known.draft);
      } catch (caught) {
        const found = caught instanceof ApiError ? (caught.problems.length > 0 ? caught.problems : [{ path: `agents/${agentId}`, code: caught.code, message: caught.message }]) : [];
        setProblems(found);
        remember({ state: found.length > 0 ? "refused" : "failed" });
      }
    };
    queue.current = queue.current.then(run, run);
    return queue.current;
  }, [agentId, remember, write]);

  const edit = useCallback((next: JsonObject) => {
    remember({ mine: next, state: latest.current.state === "conflict" ? "conflict" : "dirty" });
    clearTimeout(timer.current);
    timer.current = setTimeout(() => void save(), AUTOSAVE_MS);
  }, [remember, save]);

  /** Saves what is typed now; the draft that has it, or null if it could not be saved. */
  const flush = useCallback(async (): Promise<Draft | null> => {
    await save();
    const { state: now, known } = latest.current;
    return now === "refused" || now === "conflict" || now === "failed" ? null : (known?.draft ?? null);
  }, [save]);

  /** Text of the JSON editor that is no JSON yet; it belongs to no field, so that it is kept here when its tab is left. */
  const [unfinished, setUnfinished] = useState<string | null>(null);
  // Leaving the page loses nothing that was typed.
  useLeaveGuard(
    () => unfinished !== null || ["dirty", "saving", "refused", "conflict", "failed"].includes(latest.current.state),
    async () => { await save(); return unfinished === null && ["clean", "saved"].includes(latest.current.state); },
  );
  useEffect(() => () => clearTimeout(timer.current), []);

  const resolve = useCallback((merged: JsonObject) => {
    const theirs = conflict?.draft ?? null;
    const { known } = latest.current;
    if (known === null || conflict === null) return;
    setConflict(null);
    remember({ mine: merged, known: { ...known, draft: theirs, base: conflict.theirs }, state: "dirty" });
    void save();
  }, [conflict, remember, save]);

  const discard = useCallback(async () => {
    const { known } = latest.current;
    if (known?.draft !== null && known?.draft !== undefined && findChange(known.draft, "agents", agentId) !== undefined) await dropRecord(known.draft, "agents", agentId);
    setUnfinished(null);
    remember({ state: "clean" });
    await refreshKinds("config");
    if (known?.live !== null) await load();
  }, [agentId, load, remember]);

  /** Publishes the whole draft; one whose records changed meanwhile is brought onto what is live first, with `chosen` for the fields that both sides changed. */
  const publish = useCallback(async (message: string, chosen?: Readonly<Record<string, Preference>>): Promise<number> => {
    const draft = await flush();
    if (draft === null) throw new Error(texts.notSaved);
    const no = await publishDraft(chosen === undefined ? draft : await rebaseDraft(draft, chosen), { message }).catch(async (caught: unknown) => {
      if (!isRebaseNeeded(caught)) throw caught;
      return publishDraft(await rebaseDraft(draft), { message });
    });
    latest.current.draftId = undefined;
    onDraft(undefined);
    await refreshKinds("config", "agent", "audit");
    await load();
    return no;
  }, [flush, load, onDraft]);

  const isChanged = known !== null && findChange(known.draft, "agents", agentId) !== undefined;
  return { mine, live: known?.live ?? null, meta: known?.meta, draft: known?.draft ?? null, isChanged, state, problems, conflict, error, person: caller.data?.id, edit, flush, resolve, discard, publish, reload: load, unfinished, setUnfinished };
}

export type AgentEditor = ReturnType<typeof useAgentEditor>;
