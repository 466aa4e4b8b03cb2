/** What the chat reads from the server: events of a run, stored messages, tickets. Only the fields that are shown. */
import type { Schemas } from "../../api/client";

export type Identity = { run_id: string; thread_id: string; agent_id: string; parent_run_id?: string };
export type Usage = { prompt_tokens?: number; completion_tokens?: number; total_tokens?: number; cost_nanos?: number; cost_usd?: number };
export type Termination = { type: string; value?: unknown; code?: string; cause?: string };
export type ToolResult = { tool_name?: string; status?: string; data?: unknown; message?: string; metadata?: Record<string, unknown> };
export type PatchOperation = { op: string; path: string; value?: unknown; from?: string };

/** An event as a frame of a stream carries it. Kinds that the chat does not know are kept for the raw view only. */
export type RunEvent =
  | { event_type: "run_start"; run_id: string; identity: Identity }
  | { event_type: "run_finish"; run_id: string; identity: Identity; termination: Termination }
  | { event_type: "step_start"; message_id: string }
  | { event_type: "step_end" }
  | { event_type: "text_delta"; delta: string }
  | { event_type: "reasoning_delta"; delta: string }
  | { event_type: "reasoning_encrypted_value" }
  | { event_type: "tool_call_start"; id: string; name: string }
  | { event_type: "tool_call_delta"; id: string; args_delta: string }
  | { event_type: "tool_call_ready"; id: string; name: string; arguments: unknown }
  | { event_type: "tool_call_stream_delta"; id: string; delta: string }
  | { event_type: "tool_call_done"; id: string; message_id: string; result: ToolResult; outcome: string; ticket_id?: string }
  | { event_type: "tool_call_resumed"; target_id: string; message_id: string; result: unknown; is_declined?: boolean; is_failed?: boolean }
  | { event_type: "tool_call_cancel"; id: string; reason?: string }
  | { event_type: "stream_reset"; reason?: string }
  | { event_type: "activity_snapshot"; message_id: string; activity_type: string; content: unknown; replace?: boolean }
  | { event_type: "activity_delta"; message_id: string; activity_type: string; patch: PatchOperation[] }
  | { event_type: "inference_complete"; model: string; usage?: Usage; duration_ms?: number }
  | { event_type: "state_snapshot"; snapshot: unknown }
  | { event_type: "state_delta"; delta: PatchOperation[] }
  | { event_type: "messages_snapshot" }
  | { event_type: "error"; message: string; code?: string };

export type MediaSource = { type: "base64"; media_type: string; data: string } | { type: "url"; url: string };
export type Part =
  | { type: "text"; text: string }
  | { type: "thinking"; thinking: string }
  | { type: "image" | "audio" | "video"; source: MediaSource }
  | { type: "document"; source: MediaSource; title?: string | null };
export type StoredCall = { id: string; name: string; arguments: unknown };
export type StoredMessage = {
  message_id: string;
  seq: number;
  produced_by_run_id?: string | null;
  created_at: number;
  message: { role: string; content?: Part[] | string; tool_calls?: StoredCall[] | null; tool_call_id?: string | null; visibility?: string };
};
export type Ticket = Schemas["TicketView"];
export type Run = Schemas["RunView"];
