/** The connections of this process to servers that records name. They change by themselves, so they are asked for often. */
import { useQueries } from "@tanstack/react-query";

import { isGone } from "../../api/errors";

/** Loads the status of each; null for one that this process does not have yet. */
export function useStatuses<Status>(kind: string, ids: readonly string[], everyMs: number, load: (id: string, signal: AbortSignal) => Promise<Status>): (Status | null)[] {
  const queries = useQueries({
    queries: ids.map((id) => ({
      queryKey: ["config", kind, id],
      queryFn: ({ signal }: { signal: AbortSignal }): Promise<Status | null> => load(id, signal).catch((error: unknown) => { if (isGone(error)) return null; throw error; }),
      refetchInterval: everyMs,
    })),
  });
  return queries.map((it) => it.data ?? null);
}
