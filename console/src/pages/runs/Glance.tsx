/** What needs a look, in numbers; each is a filter. */
import { Group, UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { api, need } from "../../api/client";
import { readNow } from "../../api/clock";
import { runs as texts } from "../../texts/runs";
import { formatCount } from "../../ui/format";
import classes from "./runs.module.css";
import { readRange } from "./ranges";
import type { RunsSearch } from "./search";

type Card = { label: string; count: number | null; search: RunsSearch; look?: "bad" | "wait" };

export function Glance({ search, onSearch }: { search: RunsSearch; onSearch: (change: RunsSearch) => void }) {
  const { data: open } = useQuery({ queryKey: ["run", "summary"], queryFn: ({ signal }) => need(api.GET("/v1/runs/summary", { signal })) });
  const { data: failed } = useQuery({
    queryKey: ["run", "failed"],
    queryFn: ({ signal }) => need(api.GET("/v1/runs", { params: { query: { ...readRange({ range: "24h" }, readNow()), ended: "error", limit: 1, total: true } }, signal })),
  });
  const cards: Card[] = [
    { label: texts.glance.all, count: null, search: {} },
    { label: texts.glance.running, count: open?.running ?? null, search: { status: "running" } },
    { label: texts.glance.queued, count: open?.created ?? null, search: { status: "created" } },
    { label: texts.glance.waiting, count: open?.waiting ?? null, search: { status: "waiting" }, look: "wait" },
    { label: texts.glance.failed, count: failed?.total ?? null, search: { ended: "error", range: "24h" }, look: "bad" },
  ];
  return (
    <Group gap={6} mb="sm" role="group" aria-label={texts.glance.label}>
      {cards.map((it) => {
        const isChosen = it.search.status === search.status && it.search.ended === search.ended;
        return (
          <UnstyledButton key={it.label} className={classes.chip} aria-pressed={isChosen} data-look={(it.count ?? 0) > 0 ? it.look : undefined} onClick={() => onSearch({ status: undefined, ended: undefined, range: undefined, ...it.search })}>
            {it.label}{it.count === null ? null : <b>{formatCount(it.count)}</b>}
          </UnstyledButton>
        );
      })}
    </Group>
  );
}
