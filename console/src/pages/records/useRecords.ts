/** The records of a namespace with what is known about each, and how one is deleted. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { deleteRecord, factsQuery, recordsQuery, type ConfigRecord, type ListedFacts, type Namespace } from "../../api/config";
import { refreshKinds } from "../../api/queries";
import { records as texts } from "../../texts/records";
import { useConfirm } from "../../ui/confirm";
import { noteDone, noteError } from "../../ui/notices";

export type RecordRow = { id: string; record: ConfigRecord; facts: ListedFacts | undefined };

export function useRecords(namespace: Namespace) {
  const list = useQuery(recordsQuery(namespace));
  const { data: facts } = useQuery(factsQuery(namespace));
  const rows = useMemo(() => (list.data ?? []).map((record): RecordRow => ({ id: record.id, record, facts: facts?.find((it) => it.id === record.id) })), [list.data, facts]);
  return { list, rows };
}

/** Deletes a record as it was seen, after a question; tells whether it did. */
export function useDelete(namespace: Namespace): (id: string, revision: number) => Promise<boolean> {
  const confirm = useConfirm();
  return async (id, revision) => {
    if (!(await confirm({ title: texts.deleteTitle(id), body: texts.deleteBody, confirm: texts.delete, isDangerous: true }))) return false;
    try {
      await deleteRecord(namespace, id, revision);
      noteDone(texts.deleted(id));
      await refreshKinds("config", "agent", "model", "audit", "usage");
      return true;
    } catch (error) {
      noteError(error);
      await refreshKinds("config");
      return false;
    }
  };
}
