/** What the page shows of an MCP server. Pure. */
import type { Schemas } from "../../api/client";
import type { ConfigRecord } from "../../api/config";
import { mcp as texts } from "../../texts/servers";
import { ui } from "../../texts/ui";
import { isObject, type JsonObject } from "../../ui/schema/model";
import type { RecordRow } from "../records/useRecords";

export type ServerRow = RecordRow & { status: Schemas["McpServerView"] | null };

/** The look of a connection, by a word that has one. */
export function stateOf({ record, status }: Pick<ServerRow, "record" | "status">): { value: string; label: string } {
  if (record.enabled === false) return { value: "stopped", label: texts.off };
  if (status === null) return { value: "created", label: ui.none };
  if (status.connected) return { value: "ok", label: status.state };
  return { value: status.permanently_failed || status.last_error != null ? "failed" : "running", label: status.state.replaceAll("_", " ") };
}

export function targetOf(record: ConfigRecord): string {
  if (record.transport === "http") return String(record.url ?? "");
  return [record.command, ...(Array.isArray(record.args) ? (record.args as unknown[]) : [])].filter((it) => it !== null && it !== undefined).join(" ");
}

/** The pins with which the server's tools are accepted as they are offered now: those of other tools stay. */
export function acceptDrift(record: ConfigRecord, drift: readonly Schemas["ToolDrift"][]): JsonObject {
  const pins = isObject(record.pins) ? record.pins : {};
  return { ...pins, ...Object.fromEntries(drift.map((it) => [it.tool, it.offered])) };
}

/** Whether a person has to log in, and can: the server's `oauth` is a login. */
export function needsLogin({ record, status }: Pick<ServerRow, "record" | "status">): boolean {
  return status?.state === "login_required" && isObject(record.oauth) && record.oauth.type === "login";
}
