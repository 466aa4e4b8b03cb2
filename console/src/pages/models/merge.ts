/** What is known of a model: its health, and its record if the configuration has one. Pure. */
import type { Schemas } from "../../api/client";
import type { ConfigRecord } from "../../api/config";

type Health = Schemas["ModelStatus"];
export type ModelRow = { id: string; health: Health | null; record: ConfigRecord | null };

export function mergeModels(health: readonly Health[], records: readonly ConfigRecord[]): ModelRow[] {
  const rows = new Map<string, ModelRow>(records.map((it) => [it.id, { id: it.id, health: null, record: it }]));
  for (const it of health) rows.set(it.model_id, { id: it.model_id, health: it, record: rows.get(it.model_id)?.record ?? null });
  return [...rows.values()].sort((a, b) => a.id.localeCompare(b.id));
}

/** The prices of a model for a million tokens: "$1.50 / $6.00"; null without a price. */
export function describePrice(record: ConfigRecord | null): string | null {
  const read = (name: string) => {
    const value = record?.[name];
    return typeof value === "number" ? `$${value.toFixed(2)}` : null;
  };
  const [input, output] = [read("input_token_price_per_million_usd"), read("output_token_price_per_million_usd")];
  return input === null && output === null ? null : `${input ?? "–"} / ${output ?? "–"}`;
}

export type PoolMember = { model_id: string; failover_only?: boolean };

export function readMembers(record: ConfigRecord): PoolMember[] {
  return Array.isArray(record.members) ? (record.members as PoolMember[]) : [];
}
