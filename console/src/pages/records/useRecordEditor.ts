/** One record while it is edited: what is typed, whether it compiles, and how it is saved in a draft or published. */
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import { checkRecord, publishRecord, tryOverrides, type ConfigRecord, type ListedFacts, type Namespace } from "../../api/config";
import { createDraft, fetchDrafts, loadDraft, makeWrite, pickDraft, saveRecord } from "../../api/drafts";
import { ApiError, type Problem } from "../../api/errors";
import { callerQuery, refreshKinds } from "../../api/queries";
import { records as texts } from "../../texts/records";
import { noteDone } from "../../ui/notices";
import { isRecordId } from "../../ui/recordText";
import { problemsBelow, type JsonObject } from "../../ui/schema/model";

const CHECK_MS = 400;
/** What may change with a record. */
const TOUCHED = ["config", "agent", "model", "audit", "usage"] as const;

type Place = { namespace: Namespace; live: ConfigRecord | undefined; facts: ListedFacts | undefined; taken: readonly string[] };
type Check = { isOk: boolean; problems: readonly Problem[]; diagnostics: readonly Problem[] };

function describeProblem(place: string, error: ApiError): Problem {
  return { path: place, code: error.code, message: error.message };
}

/** Asks the server whether what is typed compiles. What cannot be decoded at all is refused rather than described. */
function useCheck({ namespace, live, facts }: Place, id: string, mine: JsonObject, isReady: boolean) {
  const [settled] = useDebouncedValue(mine, CHECK_MS);
  const query = useQuery({
    queryKey: ["config", "check", namespace, id, settled],
    queryFn: async ({ signal }): Promise<Check> => {
      const write = makeWrite(facts?.owner, live ?? null, settled);
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

export function useRecordEditor(place: Place, initial: JsonObject) {
  const { namespace, live, facts, taken } = place;
  const [mine, setMine] = useState(initial);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const { data: caller } = useQuery(callerQuery);
  const id = live?.id ?? String(mine.id ?? "");
  const idProblem = live !== undefined ? undefined : !isRecordId(id) ? texts.badId : taken.includes(id) ? texts.taken : undefined;
  const { check, isChecking } = useCheck(place, id, mine, idProblem === undefined);
  const write = () => makeWrite(facts?.owner, live ?? null, { ...mine, id });
  const edit = (next: JsonObject) => {
    setMine(next);
    setError(null);
  };
  /** Puts the record into a draft of the caller, and returns the draft. */
  const saveInDraft = async () => {
    setBusy(true);
    setError(null);
    try {
      const picked = pickDraft(await fetchDrafts(), caller?.id ?? "", namespace, id);
      const draft = picked === undefined ? await createDraft(texts.defaultDraftTitle(id)) : await loadDraft(picked.id);
      const saved = await saveRecord(draft, namespace, id, write());
      noteDone(texts.saved(saved.title ?? ""));
      await refreshKinds("config");
      return saved;
    } catch (caught) {
      setError(caught);
      return null;
    } finally {
      setBusy(false);
    }
  };
  const publish = async (message: string) => {
    try {
      await publishRecord(namespace, id, write(), message, facts?.revision ?? 0);
    } catch (caught) {
      setError(caught);
      throw caught;
    }
    noteDone(texts.published(null));
    await refreshKinds(...TOUCHED);
  };
  const problems = useMemo((): readonly Problem[] => (error instanceof ApiError ? error.problems : (check?.problems ?? [])), [error, check]);
  const onFields = useMemo(() => problemsBelow(problems, `${namespace}/${id}`), [problems, namespace, id]);
  return { mine, edit, id, idProblem, check, isChecking, isBusy, error, problems, onFields, saveInDraft, publish };
}

export type RecordEditor = ReturnType<typeof useRecordEditor>;
