/** The rows of the list of tools. Pure. */
import type { Schemas } from "../../api/client";
import type { Capabilities, ConfigRecord, ListedFacts, Switch } from "../../api/config";

export type ToolRow = {
  id: string;
  description: string;
  source: { kind: string; id?: string | null };
  effect: string;
  schema: unknown;
  agents: string[];
  calls: number;
  errors: number;
  p95: number;
  isOff: Switch | undefined;
  isOverridden: boolean;
  /** Of its override; 0 without one. */
  revision: number;
  hasRecord: boolean;
};
type Sources = {
  tools: Capabilities["tools"];
  records: readonly ConfigRecord[];
  metas: readonly ListedFacts[];
  agents: readonly Schemas["AgentView"][];
  stats: readonly Schemas["AgentRuntimeStats"][];
  switches: readonly Switch[];
};

export function listTools({ tools, records, metas, agents, stats, switches }: Sources): ToolRow[] {
  const calls = stats.flatMap((it) => it.tool_calls_by_tool);
  const byId = new Map(tools.map((it) => [it.id, it]));
  const ids = [...new Set([...byId.keys(), ...records.map((it) => it.id)])].sort();
  return ids.map((id) => {
    const tool = byId.get(id);
    const record = records.find((it) => it.id === id);
    const own = calls.filter((it) => it.tool === id);
    return {
      id,
      description: String(record?.description ?? tool?.description ?? ""),
      source: tool?.source ?? { kind: "builtin" },
      effect: tool?.effect ?? "",
      schema: tool?.parameters_schema ?? record?.parameters_schema ?? null,
      agents: agents.filter((it) => it.tools.includes(id)).map((it) => it.id),
      calls: own.reduce((sum, it) => sum + it.call_count, 0),
      errors: own.reduce((sum, it) => sum + it.failure_count, 0),
      p95: Math.max(0, ...own.map((it) => it.p95_duration_ms)),
      isOff: switches.find((it) => it.kind === "tool" && it.id === id),
      isOverridden: metas.find((it) => it.id === id)?.owner === "override",
      revision: metas.find((it) => it.id === id)?.revision ?? 0,
      hasRecord: record !== undefined,
    };
  });
}

export function filterTools(rows: readonly ToolRow[], { q, source }: { q?: string; source?: string }): ToolRow[] {
  const words = q?.toLowerCase();
  return rows.filter((it) => (words === undefined || `${it.id} ${it.description}`.toLowerCase().includes(words)) && (source === undefined || it.source.kind === source));
}
