/** What a ticket says about the rule that asks. Pure. */
import type { Ticket } from "../../api/decisions";

/** What the permission plugin says about its question. */
export type RuleData = { rule: string | null; scopes: readonly string[]; pattern: string | null; reason: string | null };

function readText(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

export function readRule(ticket: Ticket): RuleData {
  const data = ticket.suspension.parameters;
  const fields = data !== null && typeof data === "object" ? (data as Record<string, unknown>) : {};
  const remember = fields.remember !== null && typeof fields.remember === "object" ? (fields.remember as Record<string, unknown>) : {};
  return {
    rule: readText(fields.rule),
    reason: readText(fields.reason),
    scopes: Array.isArray(remember.scopes) ? remember.scopes.filter((it): it is string => typeof it === "string") : [],
    pattern: readText(remember.pattern),
  };
}
