/** The command palette: pages, agents, and whatever id is typed. */
import { useDebouncedValue } from "@mantine/hooks";
import { createSpotlight, Spotlight, type SpotlightActionData, type SpotlightActionGroupData, type SpotlightFilterFunction } from "@mantine/spotlight";
import { IconActivity, IconMessages, IconRobot, IconSearch } from "@tabler/icons-react";
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { useMay } from "../api/caller";
import { api, need } from "../api/client";
import { agentsQuery } from "../api/queries";
import { PAGES } from "../navigation";
import { shell } from "../texts/shell";
import { useMayVisit } from "./useMayVisit";

const TYPING_MS = 200;
const FOUND = 5;
/** The id that a run gets from the server: whoever enters one whole means that run. */
const WHOLE_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const BY_ID = "Open by id";

/** The newest runs whose id, or whose thread's, begins with what is typed. */
function foundQuery(q: string) {
  return queryOptions({
    queryKey: ["run", "found", q],
    queryFn: async ({ signal }) => (await need(api.GET("/v1/runs", { params: { query: { q, limit: FOUND, order: "desc" } }, signal }))).items,
    refetchInterval: false,
  });
}

const [store, palette] = createSpotlight();

/** Leaves the order of the groups as it is: what is only guessed from an id stands after all that is known. In a group, what is called so comes first. */
const filter: SpotlightFilterFunction = (text, data) => {
  const wanted = text.trim().toLowerCase();
  const has = (value: unknown) => typeof value === "string" && value.toLowerCase().includes(wanted);
  return data.flatMap((it): typeof data => {
    if (!("actions" in it)) return [it];
    const actions = [...it.actions.filter((one) => has(one.label)), ...it.actions.filter((one) => !has(one.label) && (has(one.description) || has(one.keywords)))];
    return actions.length === 0 ? [] : [{ ...it, actions }];
  });
};

/** Marks the first entry, as the list does by itself when something is typed. */
function selectFirst(): void {
  const entries = document.querySelectorAll(".mantine-Spotlight-actionsList [data-action]");
  entries.forEach((it, index) => it.toggleAttribute("data-selected", index === 0));
  store.updateState((state) => ({ ...state, selected: entries.length === 0 ? -1 : 0 }));
}

/** Moves the focus to the page that was chosen, unless a field of it has taken it. */
function focusPage(): void {
  const { activeElement } = document;
  if (activeElement === null || activeElement === document.body || activeElement.closest(".mantine-Spotlight-content") !== null) document.querySelector<HTMLElement>("main")?.focus({ preventScroll: true });
}

export function openPalette(): void {
  palette.open();
}

export function Palette() {
  const may = useMay();
  const mayVisit = useMayVisit();
  const navigate = useNavigate();
  // What had the focus gets it back when nothing was chosen.
  const [isChosen, setIsChosen] = useState(false);
  const go = (leaving: Promise<void>) => {
    setIsChosen(true);
    void leaving.then(focusPage);
  };
  const [query, setQuery] = useState("");
  const { data: agents = [], isLoading } = useQuery({ ...agentsQuery, enabled: may("read") });
  const pages: SpotlightActionData[] = PAGES.filter(mayVisit).map(({ name, path, icon: Icon }) => ({
    id: `page-${name}`,
    label: shell.pages[name],
    leftSection: <Icon size={16} stroke={1.7} />,
    onClick: () => go(navigate({ to: path })),
  }));
  const named: SpotlightActionData[] = agents.map((it) => ({
    id: `agent-${it.id}`,
    label: it.id,
    description: it.description ?? undefined,
    leftSection: <IconRobot size={16} stroke={1.7} />,
    onClick: () => go(navigate({ to: "/agents/$agentId", params: { agentId: it.id } })),
  }));
  const typed = query.trim();
  const [settled] = useDebouncedValue(typed, TYPING_MS);
  const mayFind = may("read") && typed.length >= 2;
  const { data: found = [], isPending } = useQuery({ ...foundQuery(settled), enabled: mayFind && settled.length >= 2 });
  const isSought = mayFind && (typed !== settled || isPending);
  const runs: SpotlightActionData[] = found.map((it) => ({
    id: `run-${it.run_id}`,
    label: it.run_id,
    description: `${it.agent_id} · ${it.status}`,
    keywords: typed,
    leftSection: <IconActivity size={16} stroke={1.7} />,
    onClick: () => go(navigate({ to: "/runs/$runId", params: { runId: it.run_id } })),
  }));
  const threads: SpotlightActionData[] = [...new Set(found.map((it) => it.thread_id).filter((it) => it.startsWith(settled)))].map((threadId) => ({
    id: `thread-${threadId}`,
    label: threadId,
    keywords: typed,
    leftSection: <IconMessages size={16} stroke={1.7} />,
    onClick: () => go(navigate({ to: "/threads/$threadId", params: { threadId } })),
  }));
  // Until it is known what has this name, Enter must not take it for the id of a run; nor is one offered twice.
  const ids: SpotlightActionData[] = typed === "" || isLoading || (isSought && !WHOLE_ID.test(typed)) ? [] : [
    { id: "run", label: `Run ${typed}`, keywords: typed, onClick: () => go(navigate({ to: "/runs/$runId", params: { runId: typed } })) },
    { id: "thread", label: `Thread ${typed}`, keywords: typed, onClick: () => go(navigate({ to: "/threads/$threadId", params: { threadId: typed } })) },
  ].filter((it) => !(it.id === "run" ? runs : threads).some((known) => known.label === typed));
  const actions: SpotlightActionGroupData[] = [
    { group: "Pages", actions: pages },
    { group: "Agents", actions: named },
    { group: "Threads", actions: threads },
    { group: "Runs", actions: runs },
    { group: BY_ID, actions: ids },
  ].filter((it) => it.actions.length > 0);
  const hasMoved = useRef(false);
  const offered = actions.flatMap((it) => it.actions.map((action) => action.id)).join();
  useEffect(() => {
    // The list marks its first entry when something is typed, not when entries come later: Enter would take what is no longer the first, or nothing.
    if (typed !== "" && !hasMoved.current) selectFirst();
  }, [offered, typed]);
  return (
    <Spotlight
      store={store}
      returnFocus={!isChosen}
      onSpotlightOpen={() => setIsChosen(false)}
      actions={actions}
      query={query}
      onQueryChange={(text) => { hasMoved.current = false; setQuery(text); }}
      filter={filter}
      shortcut={null}
      limit={12}
      scrollable
      maxHeight={420}
      nothingFound={isLoading || isSought ? shell.loading : "Nothing is called so"}
      searchProps={{ leftSection: <IconSearch size={16} />, placeholder: shell.search, "aria-label": shell.search, onKeyDown: (event) => { hasMoved.current ||= event.key.startsWith("Arrow"); } }}
    />
  );
}
