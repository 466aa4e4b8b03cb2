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

export type SaveState = "clean" | "dirty" | "saving" | "saved" | "refused" | "conflict" | "gone" | "failed";
export type Conflict = { base: JsonObject; theirs: JsonObject; mine: JsonObject; draft: Draft | null };

const AUTOSAVE_MS = 1_000;
/** What is typed then belongs to no draft: it waits for a person. */
const HELD: readonly SaveState[] = ["conflict", "gone"];
const SETTLED: readonly SaveState[] = ["clean", "saved"];

/** What a request finds, or null if it is not there. */
const orNull = async <T,>(asked: Promise<T>): Promise<T | null> => asked.catch((caught: unknown) => { if (isGone(caught)) return null; throw caught; });

/** The agent as it is live, and what is known of its record: of the same publication, or an earlier one. */
async function loadLive(agentId: string): Promise<Pick<Known, "live" | "meta">> {
  const meta = await orNull(loadFacts("agents", agentId));
  const live = meta === null ? null : await orNull(loadRecord("agents", agentId));
  return { live, meta: live === null ? undefined : (meta ?? undefined) };
}

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
  /** The draft that the page told its address; another one there was chosen by a person. */
  const told = useRef(draftId);
  const loads = useRef(0);
  const remember = useCallback((change: Partial<{ mine: JsonObject; known: Known; state: SaveState }>) => {
    latest.current = { ...latest.current, ...change };
    if (change.mine !== undefined) setMine(change.mine);
    if (change.known !== undefined) setKnown(change.known);
    if (change.state !== undefined) setState(change.state);
  }, []);
  latest.current.draftId = draftId;
  const isShown = useRef(true);
  useEffect(() => {
    isShown.current = true;
    return () => { isShown.current = false; };
  }, []);
  const tellDraft = useCallback((id: string | undefined) => {
    told.current = id;
    // What is still on its way when the page is left says nothing into the address of the next one.
    if (isShown.current) onDraft(id);
  }, [onDraft]);

  const load = useCallback(async (chosen = latest.current.draftId) => {
    loads.current += 1;
    const turn = loads.current;
    const person = (await cache.fetchQuery({ ...callerQuery })).id;
    const { live, meta } = await loadLive(agentId);
    const wanted = chosen ?? pickDraft(await fetchDrafts(), person, "agents", agentId)?.id;
    const draft = wanted === undefined ? null : await orNull(loadDraft(wanted));
    const base = applyChange(live, findChange(draft, "agents", agentId)) ?? live;
    if (base === null) throw new ApiError(404, { error: "unknown", code: "unknown_agent" }, null);
    // Another draft was chosen meanwhile.
    if (turn !== loads.current) return;
    remember({ mine: base, known: { live, meta, draft, base }, state: "clean" });
    setProblems([]);
    tellDraft(draft?.id);
  }, [agentId, cache, remember, tellDraft]);

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
    if (draft.id !== now.known.draft?.id) tellDraft(draft.id);
    void cache.invalidateQueries({ queryKey: draftsQuery.queryKey });
  }, [cache, remember, tellDraft]);

  /** A draft that was begun after the page read the agent has what others published since: what is typed becomes a change of that. Null: a person has to choose first. */
  const catchUp = useCallback(async (draft: Draft, sent: JsonObject): Promise<JsonObject | null> => {
    const { known } = latest.current;
    if (known === null || known.live === null || (draft.base ?? 0) <= (known.meta?.publication ?? 0)) return sent;
    const now = await loadLive(agentId);
    const typed = latest.current.mine ?? sent;
    if (now.live === null) return typed;
    if (compareVersions(known.base, now.live, typed).some((it) => it.isClash)) {
      if (draft.id !== known.draft?.id) tellDraft(draft.id);
      remember({ known: { ...known, ...now, draft }, state: "conflict" });
      setConflict({ base: known.base, theirs: now.live, mine: typed, draft });
      return null;
    }
    const merged = mergeVersions(known.base, now.live, typed, () => "mine");
    const next = isSame(merged, typed) ? typed : merged;
    remember({ known: { ...known, ...now, base: now.live }, mine: next });
    return next;
  }, [agentId, remember, tellDraft]);

  /** Writes what is typed; a draft that moved on is merged where the same field was not changed by both. What belongs to a draft that is gone goes into no other one by itself. */
  const write = useCallback(async (given: JsonObject, from: Draft | null): Promise<void> => {
    if (latest.current.known === null) return;
    const draft = from ?? (await createDraft(records.defaultDraftTitle(agentId)));
    const sent = findChange(draft, "agents", agentId) === undefined ? await catchUp(draft, given) : given;
    const { known } = latest.current;
    if (sent === null || known === null) return;
    const body = makeWrite(known.meta?.owner, known.live, sent);
    const isEmpty = "overrides" in body && Object.keys(body.overrides).length === 0;
    if (isEmpty && findChange(draft, "agents", agentId) === undefined) return settle(draft, sent);
    try {
      settle(isEmpty ? await dropRecord(draft, "agents", agentId) : await saveRecord(draft, "agents", agentId, body), sent);
    } catch (caught) {
      if (isGone(caught)) return remember({ state: "gone" });
      if (!isConflict(caught)) throw caught;
      const theirs = await loadDraft(draft.id);
      const other = applyChange(known.live, findChange(theirs, "agents", agentId)) ?? known.base;
      // A person types on while the server answers.
      const typed = latest.current.mine ?? sent;
      const fields = compareVersions(known.base, other, typed);
      if (!fields.some((it) => it.isClash)) {
        const merged = mergeVersions(known.base, other, typed, () => "mine");
        if (isSame(merged, typed)) return write(typed, theirs);
        remember({ mine: merged });
        return write(merged, theirs);
      }
      remember({ state: "conflict" });
      setConflict({ base: known.base, theirs: other, mine: typed, draft: theirs });
    }
  }, [agentId, catchUp, remember, settle]);

  const save = useCallback((): Promise<void> => {
    clearTimeout(timer.current);
    const run = async () => {
      const { mine: sent, known, state: before } = latest.current;
      if (sent === null || known === null || HELD.includes(before) || isSame(sent, known.base)) {
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
    remember({ mine: next, state: HELD.includes(latest.current.state) ? latest.current.state : "dirty" });
    clearTimeout(timer.current);
    timer.current = setTimeout(() => void save(), AUTOSAVE_MS);
  }, [remember, save]);

  /** Saves what is typed now; the draft that has it, or null if it could not be saved. */
  const flush = useCallback(async (): Promise<Draft | null> => {
    await save();
    const { state: now, known } = latest.current;
    return SETTLED.includes(now) ? (known?.draft ?? null) : null;
  }, [save]);

  // Another draft in the address: what is typed belongs to the one that is shown, and the other one is shown before anything goes into it.
  useEffect(() => {
    if (draftId === undefined || draftId === told.current) return;
    told.current = draftId;
    const change = async () => {
      await save();
      if (SETTLED.includes(latest.current.state)) return load(draftId);
      tellDraft(latest.current.known?.draft?.id);
    };
    change().catch(setError);
  }, [draftId, load, save, tellDraft]);

  /** Text of the JSON editor that is no JSON yet; it belongs to no field, so that it is kept here when its tab is left. */
  const [unfinished, setUnfinished] = useState<string | null>(null);
  // Leaving the page loses nothing that was typed.
  useLeaveGuard(
    () => unfinished !== null || !SETTLED.includes(latest.current.state),
    async () => { await save(); return unfinished === null && SETTLED.includes(latest.current.state); },
  );
  useEffect(() => () => clearTimeout(timer.current), []);

  const resolve = useCallback((merged: JsonObject) => {
    const theirs = conflict?.draft ?? null;
    const { known } = latest.current;
    if (known === null || conflict === null) return;
    setConflict(null);
    // What was typed before the dialog took the focus is kept beside what was chosen in it.
    const mine = mergeVersions(conflict.mine, merged, latest.current.mine ?? conflict.mine, () => "mine");
    remember({ mine, known: { ...known, draft: theirs, base: conflict.theirs }, state: "dirty" });
    void save();
  }, [conflict, remember, save]);

  /** Begins a new draft with what is on the page, after its draft was published or discarded: over what is live by now, with a choice where both changed a field. */
  const beginAgain = useCallback(async () => {
    const { known } = latest.current;
    if (known === null) return;
    const now = await loadLive(agentId);
    const typed = latest.current.mine;
    if (typed === null) return;
    const theirs = now.live ?? known.base;
    const base = known.live ?? known.base;
    const isClash = compareVersions(base, theirs, typed).some((it) => it.isClash);
    const next = { ...now, draft: null, base: theirs };
    if (isClash) {
      remember({ known: next, state: "conflict" });
      return setConflict({ base, theirs, mine: typed, draft: null });
    }
    remember({ known: next, mine: mergeVersions(base, theirs, typed, () => "mine"), state: "dirty" });
    await save();
  }, [agentId, remember, save]);

  const discard = useCallback(async () => {
    const { known } = latest.current;
    if (known?.draft !== null && known?.draft !== undefined && findChange(known.draft, "agents", agentId) !== undefined) await dropRecord(known.draft, "agents", agentId);
    setUnfinished(null);
    remember({ state: "clean" });
    await refreshKinds("config");
    if (known?.live !== null) await load();
  }, [agentId, load, remember]);

  /** Publishes a draft as it was shown, and no later version of it; one whose records changed meanwhile is brought onto what is live first, with `chosen` for the fields that both sides changed. */
  const publish = useCallback(async (shown: Draft, message: string, chosen?: Readonly<Record<string, Preference>>): Promise<number> => {
    if (!SETTLED.includes(latest.current.state)) throw new Error(texts.notSaved);
    const no = await publishDraft(chosen === undefined ? shown : await rebaseDraft(shown, chosen), { message }).catch(async (caught: unknown) => {
      if (!isRebaseNeeded(caught)) throw caught;
      return publishDraft(await rebaseDraft(shown), { message });
    });
    latest.current.draftId = undefined;
    tellDraft(undefined);
    await refreshKinds("config", "agent", "audit");
    await load();
    return no;
  }, [load, tellDraft]);

  const isChanged = known !== null && findChange(known.draft, "agents", agentId) !== undefined;
  return { mine, live: known?.live ?? null, meta: known?.meta, draft: known?.draft ?? null, isChanged, state, problems, conflict, error, person: caller.data?.id, edit, flush, resolve, beginAgain, discard, publish, reload: () => load(), unfinished, setUnfinished };
}

export type AgentEditor = ReturnType<typeof useAgentEditor>;
