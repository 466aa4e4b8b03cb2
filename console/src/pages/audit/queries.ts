/** The audit as the server gives it. */
import { api, need, type Schemas } from "../../api/client";

export type AuditEvent = Schemas["AuditItem"];
export type AuditFilters = { resource?: string; action?: string; actor?: string; since?: string };

export function listEvents(filters: AuditFilters, cursor: string | undefined, limit: number, signal?: AbortSignal): Promise<Schemas["AuditPage"]> {
  const query = { ...filters, action: filters.action as Schemas["AuditAction"] | undefined, cursor, limit };
  return need(api.GET("/v1/audit-log", { params: { query }, signal }));
}

const EXPORT_PAGE = 1_000;

/** Loads every event that matches, page by page, as lines of JSON. */
export async function exportEvents(filters: AuditFilters, onCount: (count: number) => void): Promise<string[]> {
  const lines: string[] = [];
  for (let cursor: string | undefined; ;) {
    const page: Schemas["AuditPage"] = await listEvents(filters, cursor, EXPORT_PAGE);
    for (const event of page.items) lines.push(JSON.stringify(event));
    onCount(lines.length);
    cursor = page.next_cursor;
    if (cursor === undefined) return lines;
  }
}
