/** The rows of the list of agents, from what several resources say about them. Pure. */
import type { ListedFacts, Switch } from "../../api/config";
import type { DraftSummary } from "../../api/drafts";
import type { Schemas } from "../../api/client";

export type AgentRow = {
  id: string;
  description: string;
  model: string;
  tools: number | null;
  stats: Schemas["AgentRuntimeStats"] | undefined;
  meta: ListedFacts | undefined;
  /** The draft that has it, if it is not live. */
  draftId: string | undefined;
  isPaused: boolean;
};
type Sources = {
  agents: readonly Schemas["AgentView"][];
  stats: readonly Schemas["AgentRuntimeStats"][];
  metas: readonly ListedFacts[];
  drafts: readonly DraftSummary[];
  switches: readonly Switch[];
};
type Filters = { q?: string; owner?: string; model?: string };

export function listAgents({ agents, stats, metas, drafts, switches }: Sources): AgentRow[] {
  const rows = agents.map((it): AgentRow => ({
    id: it.id,
    description: it.description,
    model: it.model,
    tools: it.tools.length,
    stats: stats.find((row) => row.agent_id === it.id),
    meta: metas.find((row) => row.id === it.id),
    draftId: undefined,
    isPaused: switches.some((row) => row.kind === "all" || (row.kind === "agent" && row.id === it.id)),
  }));
  const live = new Set(rows.map((it) => it.id));
  for (const draft of drafts) {
    for (const { ns, id, type } of draft.changes) {
      if (ns !== "agents" || type !== "put" || live.has(id)) continue;
      live.add(id);
      rows.push({ id, description: "", model: "", tools: null, stats: undefined, meta: undefined, draftId: draft.id, isPaused: false });
    }
  }
  return rows;
}

export function filterAgents(rows: readonly AgentRow[], { q, owner, model }: Filters): AgentRow[] {
  const words = q?.toLowerCase();
  return rows.filter((it) =>
    (words === undefined || `${it.id} ${it.description}`.toLowerCase().includes(words))
    && (owner === undefined || (it.meta?.owner ?? "draft").startsWith(owner))
    && (model === undefined || it.model === model));
}
