/** The command palette: pages, agents, and whatever id is typed. */
import { useDebouncedValue } from "@mantine/hooks";
import { Spotlight, spotlight, type SpotlightActionData, type SpotlightActionGroupData } from "@mantine/spotlight";
import { IconActivity, IconMessages, IconRobot, IconSearch } from "@tabler/icons-react";
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { useMay } from "../api/caller";
import { api, need } from "../api/client";
import { agentsQuery } from "../api/queries";
import { PAGES } from "../navigation";
import { shell } from "../texts/shell";
import { useMayVisit } from "./useMayVisit";

const TYPING_MS = 200;
const FOUND = 5;

/** The newest runs whose id, or whose thread's, begins with what is typed. */
function foundQuery(q: string) {
  return queryOptions({
    queryKey: ["run", "found", q],
    queryFn: async ({ signal }) => (await need(api.GET("/v1/runs", { params: { query: { q, limit: FOUND, order: "desc" } }, signal }))).items,
    refetchInterval: false,
  });
}

export function openPalette(): void {
  spotlight.open();
}

export function Palette() {
  const may = useMay();
  const mayVisit = useMayVisit();
  const navigate = useNavigate();
  const [query, setQuery] = useState("");
  const { data: agents = [], isLoading } = useQuery({ ...agentsQuery, enabled: may("read") });
  const pages: SpotlightActionData[] = PAGES.filter(mayVisit).map(({ name, path, icon: Icon }) => ({
    id: `page-${name}`,
    label: shell.pages[name],
    leftSection: <Icon size={16} stroke={1.7} />,
    onClick: () => void navigate({ to: path }),
  }));
  const named: SpotlightActionData[] = agents.map((it) => ({
    id: `agent-${it.id}`,
    label: it.id,
    description: it.description ?? undefined,
    leftSection: <IconRobot size={16} stroke={1.7} />,
    onClick: () => void navigate({ to: "/agents/$agentId", params: { agentId: it.id } }),
  }));
  const typed = query.trim();
  const [settled] = useDebouncedValue(typed, TYPING_MS);
  const { data: found = [] } = useQuery({ ...foundQuery(settled), enabled: may("read") && settled.length >= 2 });
  const runs: SpotlightActionData[] = found.map((it) => ({
    id: `run-${it.run_id}`,
    label: it.run_id,
    description: `${it.agent_id} · ${it.status}`,
    keywords: typed,
    leftSection: <IconActivity size={16} stroke={1.7} />,
    onClick: () => void navigate({ to: "/runs/$runId", params: { runId: it.run_id } }),
  }));
  const threads: SpotlightActionData[] = [...new Set(found.map((it) => it.thread_id).filter((it) => it.startsWith(settled)))].map((threadId) => ({
    id: `thread-${threadId}`,
    label: threadId,
    keywords: typed,
    leftSection: <IconMessages size={16} stroke={1.7} />,
    onClick: () => void navigate({ to: "/threads/$threadId", params: { threadId } }),
  }));
  // Until the agents are known, a name may be one of theirs: Enter must not take it for the id of a run.
  const ids: SpotlightActionData[] = typed === "" || isLoading ? [] : [
    { id: "run", label: `Run ${typed}`, keywords: typed, onClick: () => void navigate({ to: "/runs/$runId", params: { runId: typed } }) },
    { id: "thread", label: `Thread ${typed}`, keywords: typed, onClick: () => void navigate({ to: "/threads/$threadId", params: { threadId: typed } }) },
  ];
  const actions: SpotlightActionGroupData[] = [
    { group: "Pages", actions: pages },
    { group: "Agents", actions: named },
    { group: "Threads", actions: threads },
    { group: "Runs", actions: runs },
    { group: "Open by id", actions: ids },
  ].filter((it) => it.actions.length > 0);
  useEffect(() => {
    // The list marks its first entry when something is typed, not when entries come later: Enter would do nothing.
    const list = isLoading ? null : document.querySelector(".mantine-Spotlight-actionsList");
    if (list !== null && list.querySelector("[data-selected]") === null) list.querySelector("[data-action]")?.setAttribute("data-selected", "true");
  }, [isLoading]);
  return (
    <Spotlight
      actions={actions}
      query={query}
      onQueryChange={setQuery}
      shortcut={null}
      limit={12}
      scrollable
      maxHeight={420}
      nothingFound={isLoading ? shell.loading : "Nothing is called so"}
      searchProps={{ leftSection: <IconSearch size={16} />, placeholder: shell.search, "aria-label": shell.search }}
    />
  );
}
