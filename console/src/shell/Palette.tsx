/** The command palette: pages, agents, and whatever id is typed. */
import { Spotlight, spotlight, type SpotlightActionData, type SpotlightActionGroupData } from "@mantine/spotlight";
import { IconRobot, IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { useMay } from "../api/caller";
import { agentsQuery } from "../api/queries";
import { PAGES } from "../navigation";
import { shell } from "../texts/shell";

export function openPalette(): void {
  spotlight.open();
}

export function Palette() {
  const may = useMay();
  const navigate = useNavigate();
  const [query, setQuery] = useState("");
  const { data: agents = [] } = useQuery({ ...agentsQuery, enabled: may("read") });
  const pages: SpotlightActionData[] = PAGES.filter((it) => may(it.scope)).map(({ name, path, icon: Icon }) => ({
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
  const ids: SpotlightActionData[] = typed === "" ? [] : [
    { id: "run", label: `Run ${typed}`, keywords: typed, onClick: () => void navigate({ to: "/runs/$runId", params: { runId: typed } }) },
    { id: "thread", label: `Thread ${typed}`, keywords: typed, onClick: () => void navigate({ to: "/threads/$threadId", params: { threadId: typed } }) },
  ];
  const actions: SpotlightActionGroupData[] = [
    { group: "Pages", actions: pages },
    { group: "Agents", actions: named },
    { group: "Open by id", actions: ids },
  ].filter((it) => it.actions.length > 0);
  return (
    <Spotlight
      actions={actions}
      query={query}
      onQueryChange={setQuery}
      shortcut={null}
      limit={12}
      scrollable
      maxHeight={420}
      nothingFound="Nothing is called so"
      searchProps={{ leftSection: <IconSearch size={16} />, placeholder: shell.search, "aria-label": shell.search }}
    />
  );
}
