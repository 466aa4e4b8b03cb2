/** The choice of an eval among those that ended: the newest at first, older ones when they are asked for, and always the one that is chosen. */
import { Button, Group, Text } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { CHOICE_PAGE, evalQuery, fetchEvals, isOpen, type EvalRecord } from "../../api/evals";
import { usePagedList } from "../../api/paging";
import { evals as texts } from "../../texts/evals";
import { formatAge } from "../format";
import { useNow } from "../parts";

type Asked = { dataset?: string; withDemo?: boolean; chosen: readonly (string | undefined)[]; isEnabled?: boolean };

/** Evals that ended, newest first; those that are chosen stand at the end if they are older than what is listed. */
export function useEvalChoice({ dataset, withDemo = false, chosen, isEnabled = true }: Asked) {
  const demo = withDemo ? "true" : undefined;
  const list = usePagedList<EvalRecord>(["eval", "choice", dataset, demo], (cursor, signal) => fetchEvals({ dataset, demo }, cursor, signal, CHOICE_PAGE), isEnabled);
  const unlisted = [...new Set(chosen.filter((id) => id !== undefined))].filter((id) => list.data !== undefined && !list.rows.some((it) => it.eval_id === id));
  const older = useQueries({ queries: unlisted.map((id) => ({ ...evalQuery(id), retry: false })), combine: (all) => all.flatMap((it) => (it.data === undefined ? [] : [it.data])) });
  const ended = useMemo(() => [...list.rows, ...older].filter((it) => !isOpen(it)), [list.rows, older]);
  return { ...list, ended };
}

/** What an eval is called where one is chosen: an id alone says nothing. */
export function useEvalName(): (it: EvalRecord) => string {
  const now = useNow();
  return (it) => `${it.spec.dataset_id} · ${(it.spec.variants ?? []).map((one) => one.name).join(", ") || "default"} · ${formatAge(it.created_at, now)} · ${it.eval_id.slice(-6)}`;
}

/** Says that there are older evals than those of a choice, and leads to them. */
export function OlderEvals({ choice }: { choice: ReturnType<typeof useEvalChoice> }) {
  if (!choice.hasNextPage) return null;
  return (
    <Group gap="xs">
      <Text size="sm" c="dimmed">{texts.choice.newest(choice.rows.length)}</Text>
      <Button variant="subtle" loading={choice.isFetchingNextPage} onClick={() => void choice.fetchNextPage()}>{texts.choice.older}</Button>
    </Group>
  );
}

/** The way back from a page that the rail does not have. */
export function AllEvals() {
  return <Button variant="subtle" renderRoot={(props) => <Link to="/evals" {...props} />}>{texts.one.all}</Button>;
}
