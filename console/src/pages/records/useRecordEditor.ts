/** One record while it is edited: what is typed, whether it compiles, and how it is saved in a draft or published over what it began with. */
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import { checkRecord, loadVersion, publishRecord, tryOverrides, type Namespace, type RecordVersion } from "../../api/config";
import { applyChange, createDraft, findChange, isSame, loadDraft, makeWrite, saveRecord, type Draft } from "../../api/drafts";
import { ApiError, isGone, type Problem } from "../../api/errors";
import { refreshKinds } from "../../api/queries";
import { records as texts } from "../../texts/records";
import type { Versions } from "../../ui/merge/MergeDialog";
import { noteDone } from "../../ui/notices";
import { isRecordId } from "../../ui/recordText";
import { problemsBelow, type JsonObject } from "../../ui/schema/model";

const CHECK_MS = 400;
/** What may change with a record. */
const TOUCHED = ["config", "agent", "model", "audit", "usage"] as const;

/** What an edit began with; a new record began with none. */
export type Begun = { version: RecordVersion | null; owner: string | undefined };
type Place = {
  namespace: Namespace;
  begun: Begun;
  taken: readonly string[];
  /** A record as the form has it: without what only the server writes. */
  read: (record: JsonObject) => JsonObject;
  /** Asks whether a record that a draft deletes is to stay. */
  confirmKeep: (draft: Draft) => Promise<boolean>;
};
type Check = { isOk: boolean; problems: readonly Problem[]; diagnostics: readonly Problem[] };
/** Two changes of the record: mine, and the one in a draft or the one that is live by now. `into`: what is chosen is saved in that draft, or in a new one (null), and not published. */
type Clash = Versions & ({ draft: Draft } | { now: RecordVersion; into?: Draft | null });

/** The record as it is live now; null if it is not there. */
const loadNow = (namespace: Namespace, id: string): Promise<RecordVersion | null> =>
  loadVersion(namespace, id).catch((gone: unknown) => { if (isGone(gone)) return null; throw gone; });

function describeProblem(place: string, error: ApiError): Problem {
  return { path: place, code: error.code, message: error.message };
}

/** Asks the server whether what is typed compiles. What cannot be decoded at all is refused rather than described. */
function useCheck(namespace: Namespace, { version, owner }: Begun, id: string, mine: JsonObject, isReady: boolean) {
  const [settled] = useDebouncedValue(mine, CHECK_MS);
  const query = useQuery({
    queryKey: ["config", "check", namespace, id, settled],
    queryFn: async ({ signal }): Promise<Check> => {
      const write = makeWrite(owner, version?.record ?? null, settled);
      try {
        const found = await ("overrides" in write ? tryOverrides(namespace, id, write.overrides, signal) : checkRecord(namespace, id, { ...write.spec, id }, signal));
        return { isOk: found.ok ?? true, problems: found.problems ?? [], diagnostics: found.diagnostics };
      } catch (error) {
        if (!(error instanceof ApiError) || error.status >= 500) throw error;
        return { isOk: false, problems: error.problems.length > 0 ? error.problems : [describeProblem(`${namespace}/${id}`, error)], diagnostics: [] };
      }
    },
    enabled: isReady && settled === mine,
    refetchInterval: false,
    gcTime: 0,
  });
  return { check: isReady && settled === mine ? query.data : undefined, isChecking: isReady && (query.isFetching || settled !== mine) };
}

export function useRecordEditor({ namespace, begun: first, taken, read, confirmKeep }: Place, initial: JsonObject) {
  // What is typed is a change of what the form began with, whatever others make live meanwhile.
  const [begun, setBegun] = useState(first);
  const [mine, setMine] = useState(initial);
  const [clash, setClash] = useState<Clash | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const live = begun.version?.record ?? null;
  const id = live?.id ?? String(mine.id ?? "");
  const idProblem = live !== null ? undefined : !isRecordId(id) ? texts.badId : taken.includes(id) ? texts.taken : undefined;
  const { check, isChecking } = useCheck(namespace, begun, id, mine, idProblem === undefined);
  const write = (body: JsonObject, { version, owner }: Begun = begun) => makeWrite(owner, version?.record ?? null, { ...body, id });
  const base = live === null ? {} : read(live);
  const edit = (next: JsonObject) => {
    setMine(next);
    setError(null);
  };
  const attempt = async (save: () => Promise<Draft | null>): Promise<Draft | null> => {
    setBusy(true);
    setError(null);
    try {
      return await save();
    } catch (caught) {
      setError(caught);
      return null;
    } finally {
      setBusy(false);
    }
  };
  const put = async (draft: Draft, body: JsonObject, from = begun): Promise<Draft> => {
    const saved = await saveRecord(draft, namespace, id, write(body, from));
    noteDone(texts.saved(saved.title ?? ""));
    await refreshKinds("config");
    return saved;
  };
  /** Puts the record into a draft that has no change of it: a change of what is live, or both versions are shown if another person published one meanwhile. */
  const begin = async (into: Draft | null, from: Begun, body: JsonObject): Promise<Draft | null> => {
    const now = await loadNow(namespace, id);
    if (now === null || now.revision === (from.version?.revision ?? 0)) return put(into ?? (await createDraft(texts.defaultDraftTitle(id))), body, from);
    setClash({ base: { ...(from.version === null ? {} : read(from.version.record)), id }, theirs: { ...read(now.record), id }, mine: { ...body, id }, now, into });
    return null;
  };
  /** Puts the record into a draft; one that has a change of its own keeps it until a person has seen both. */
  const saveInDraft = (draftId: string | null) => attempt(async () => {
    const draft = draftId === null ? null : await loadDraft(draftId);
    const change = findChange(draft, namespace, id);
    if (draft === null || change === undefined) return begin(draft, begun, mine);
    const other = applyChange(live, change);
    if (other === null) return (await confirmKeep(draft)) ? put(draft, mine) : null;
    const theirs = { ...read(other), id };
    if (isSame(theirs, { ...mine, id })) return put(draft, mine);
    setClash({ base: { ...base, id }, theirs, mine: { ...mine, id }, draft });
    return null;
  });
  /** Makes the record live; false if another person did so meanwhile, and both versions are shown. */
  const publish = async (message: string): Promise<boolean> => {
    try {
      await publishRecord(namespace, id, write(mine), message, begun.version?.revision ?? 0);
    } catch (caught) {
      const isTaken = caught instanceof ApiError && caught.code === "record_conflict";
      const now = isTaken ? await loadNow(namespace, id) : null;
      if (now === null) {
        setError(caught);
        throw caught;
      }
      setClash({ base: { ...base, id }, theirs: { ...read(now.record), id }, mine: { ...mine, id }, now });
      // The page takes what is live by itself; the choice between the two versions does not wait for it.
      void refreshKinds("config");
      return false;
    }
    noteDone(texts.published(null));
    await refreshKinds(...TOUCHED);
    return true;
  };
  /** Goes on with what was chosen: it is saved in the draft that clashed, or it is a change of what is live now, which is published again. */
  const resolve = (merged: JsonObject): Promise<Draft | null> => attempt(async () => {
    if (clash === null) return null;
    setClash(null);
    setMine(merged);
    if ("draft" in clash) return put(clash.draft, merged);
    const next = { version: clash.now, owner: begun.owner ?? "user" };
    setBegun(next);
    return clash.into === undefined ? null : begin(clash.into, next, merged);
  });
  const problems = useMemo((): readonly Problem[] => (error instanceof ApiError ? error.problems : (check?.problems ?? [])), [error, check]);
  const onFields = useMemo(() => problemsBelow(problems, `${namespace}/${id}`), [problems, namespace, id]);
  return { begun, mine, edit, id, idProblem, check, isChecking, isBusy, error, problems, onFields, clash, saveInDraft, publish, resolve, forgetClash: () => setClash(null) };
}

export type RecordEditor = ReturnType<typeof useRecordEditor>;
