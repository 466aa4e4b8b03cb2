/** The audit as the server gives it. */
import { ask } from "../../api/ask";

export type AuditEvent = {
  id: string; ts: string; actor: string; action: string; resource: string; before?: unknown; after?: unknown; publication?: number; message?: string;
  restored_from?: string | number; details?: unknown; ip?: string; request_id?: string; error?: string;
};
export type AuditFilters = { resource?: string; action?: string; actor?: string; since?: string };
export type AuditPageReply = { items: AuditEvent[]; next_cursor?: string };
export type Verification = { is_intact: boolean; checked: number; first_no: number; broken_at?: number };

export function listEvents(filters: AuditFilters, cursor: string | undefined, limit: number, signal?: AbortSignal): Promise<AuditPageReply> {
  return ask("GET", "/v1/audit-log", { query: { ...filters, cursor, limit }, signal });
}

const EXPORT_PAGE = 1_000;

/** Loads every event that matches, page by page, as lines of JSON. */
export async function exportEvents(filters: AuditFilters, onCount: (count: number) => void): Promise<string[]> {
  const lines: string[] = [];
  for (let cursor: string | undefined; ;) {
    const page: AuditPageReply = await listEvents(filters, cursor, EXPORT_PAGE);
    for (const event of page.items) lines.push(JSON.stringify(event));
    onCount(lines.length);
    cursor = page.next_cursor;
    if (cursor === undefined) return lines;
  }
}
