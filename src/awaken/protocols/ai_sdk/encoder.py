"""Encodes events as chunks of the UI message stream.

A run is one message of the client, with the run's id. No chunk refers to something that the
message does not have, because clients abort then.

A `stream_reset` discards what was streamed of a step. For version 7 that is `reset-step`. Version 6
cannot discard anything: the step is closed with a part `data-stream-reset`, and the answer begins
again in a new step. Clients should leave out a step with such a part.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from awaken.contracts import events as ev
from awaken.contracts.lifecycle import Blocked, Cancelled, Failed, Suspended
from awaken.contracts.messages import deltas
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.workflows.waits import asks_person, describe_wait
from awaken.transport.asgi import encode_json
from awaken.transport.frames import data_line

from .parts import Fields, data_chunks, outcome_of, question_part

Calls = Mapping[str, tuple[str, Any]]
"""Calls by id, with their names and inputs."""

PREVIEW_CHARS = 8_192
"""How much of a running tool's output is shown, from its end: every delta sends it again."""

_REASONS = {Suspended: "tool-calls", Failed: "error", Blocked: "content-filter"}
_COUNTS = {
    "inputTokens": "prompt_tokens",
    "outputTokens": "completion_tokens",
    "totalTokens": "total_tokens",
    "reasoningTokens": "thinking_tokens",
    "cachedInputTokens": "cache_read_tokens",
}
"""The AI SDK's names of token counts."""


class AiSdkEncoder:
    """The chunks of one run for one client.

    `earlier` is for a client that began a new message although the run resumes: the calls of the
    previous message whose outcome is shown in the new one.
    """

    def __init__(self, version: int = 6, earlier: Calls | None = None) -> None:
        self._is_seven = version >= 7
        self._is_new_message = earlier is not None
        self._earlier = earlier or {}
        self._is_over = self._is_asleep = self._is_resting = self._is_step_open = False
        self._message_id = ""
        self._texts, self._texts_before, self._thoughts = 1, 1, 0
        self._block: tuple[str, str] | None = None
        """The kind and id of the open block."""
        self._calls: dict[str, str] = {}
        """The calls of the message by id, with their names."""
        self._step_calls: set[str] = set()
        self._approvals: dict[str, str] = {}
        """The approval id of each call that asked for approval."""
        self._previews: dict[str, str] = {}
        self._usage: TokenUsage | None = None

    def encode(self, event: ev.AgentEvent) -> Sequence[bytes]:
        """Encode an event; nothing after the end, unless a suspended run resumes."""
        if self._is_over or (
            self._is_asleep and not isinstance(event, ev.RunStart | ev.ErrorEvent)
        ):
            return ()
        handle = self._HANDLERS.get(type(event))
        chunks = data_chunks(event) if handle is None else handle(self, event)
        return [data_line(encode_json(chunk)) for chunk in chunks]

    def state(self) -> object:
        """Everything that later chunks depend on."""
        return vars(self)

    def _on_run_start(self, event: ev.RunStart) -> list[Fields]:
        is_more, self._is_resting, self._is_asleep = self._is_resting, False, False
        if is_more:
            return []
        info = {"runId": event.run_id, "threadId": event.thread_id}
        name = {} if self._is_new_message else {"messageId": event.run_id}
        data = {"type": "data-run-info", "id": event.run_id, "data": info}
        return [{"type": "start", **name}, data]

    def _on_step_start(self, event: ev.StepStart) -> list[Fields]:
        self._message_id = event.message_id or self._message_id
        if self._is_step_open:
            return []
        self._is_step_open = True
        self._texts_before, self._thoughts = self._texts, 0
        self._step_calls.clear()
        return [{"type": "start-step"}]

    def _on_text(self, event: deltas.TextDelta) -> list[Fields]:
        return self._write_delta("text", f"txt_{self._texts}", event.delta)

    def _on_reasoning(self, event: deltas.ReasoningDelta) -> list[Fields]:
        again = f"_{self._thoughts + 1}" if self._thoughts else ""
        return self._write_delta("reasoning", f"reasoning_{self._message_id}{again}", event.delta)

    def _on_tool_start(self, event: deltas.ToolCallStart) -> list[Fields]:
        closed = self._close_block()
        return [*closed, self._open_call("tool-input-start", event.id, event.name)]

    def _on_tool_delta(self, event: deltas.ToolCallDelta) -> list[Fields]:
        delta = {"toolCallId": event.id, "inputTextDelta": event.args_delta}
        return [{"type": "tool-input-delta", **delta}] if event.id in self._calls else []

    def _on_tool_ready(self, event: ev.ToolCallReady) -> list[Fields]:
        closed, call = self._close_block(), (event.id, event.name)
        return [*closed, self._open_call("tool-input-available", *call, input=event.arguments)]

    def _on_tool_preview(self, event: ev.ToolCallStreamDelta) -> list[Fields]:
        shown = (self._previews.get(event.id, "") + event.delta)[-PREVIEW_CHARS:]
        self._previews[event.id] = shown
        # Not `providerExecuted` yet: clients keep that flag, and the call may still ask them.
        outcome = {"state": "output-available", "output": shown, "preliminary": True}
        return self._show_outcome(event.id, outcome)

    def _on_tool_cancel(self, event: ev.ToolCallCancel) -> list[Fields]:
        """End a call that will not run, so that no client waits for it or answers it."""
        fields = {"toolName": event.name, "input": {}, "providerExecuted": True}
        outcome = {"state": "input-error", **fields, "errorText": event.reason}
        chunks = self._show_outcome(event.id, outcome)
        self._calls.pop(event.id, None)
        return chunks

    def _on_tool_done(self, event: ev.ToolCallDone) -> list[Fields]:
        self._previews.pop(event.id, None)
        outcome = outcome_of(event)
        wanted = event.result.suspension
        if wanted is not None and not asks_person(wanted):
            data = {"toolCallId": event.id, "message": describe_wait(wanted)}
            return [{"type": "data-waiting", "id": event.id, "data": data}]
        if outcome is None:
            asked = (
                []
                if wanted is None
                else question_part(event.id, event.ticket_id or "", wanted.suspension)
            )
            return [*self._take_over_call(event.id), *asked]
        if outcome["state"] == "approval-requested":
            approval_id = self._approvals[event.id] = outcome["approval"]["id"]
            reason = wanted.suspension.message if wanted is not None and self._is_seven else ""
            outcome = {"state": "approval-request", "approvalId": approval_id}
            outcome |= {"reason": reason} if reason else {}
        return self._show_outcome(event.id, outcome)

    def _on_tool_resumed(self, event: ev.ToolCallResumed) -> list[Fields]:
        call_id, outcome = event.target_id, outcome_of(event) or {}
        approval_id = self._approvals.pop(call_id, None)
        chunks = self._show_outcome(call_id, outcome)
        if self._is_seven and approval_id is not None and chunks:
            response = {"approvalId": approval_id, "approved": outcome["state"] != "output-denied"}
            chunks.insert(0, {"type": "tool-approval-response", **response})
        return chunks

    def _on_stream_reset(self, event: ev.StreamReset) -> list[Fields]:
        closed = self._close_block()
        calls = [it for it in self._calls.items() if it[0] in self._step_calls]
        said = self._texts > self._texts_before or self._thoughts or calls
        if not self._is_step_open or not said:
            return closed
        self._texts, self._thoughts = self._texts_before, 0
        for id_, name in calls:
            closed += self._on_tool_cancel(
                ev.ToolCallCancel(id=id_, name=name, reason=event.reason)
            )
        if self._is_seven:
            return [{"type": "reset-step"}]
        notice = {"type": "data-stream-reset", "data": {"reason": event.reason}}
        return [*closed, notice, {"type": "finish-step"}, {"type": "start-step"}]

    def _on_inference(self, event: ev.InferenceComplete) -> list[Fields]:
        self._usage = event.usage if self._usage is None else self._usage.plus(event.usage)
        return data_chunks(event)

    def _on_step_end(self, _: ev.AgentEvent) -> list[Fields]:
        ended = [{"type": "finish-step"}] if self._is_step_open else []
        self._is_step_open = False
        return [*self._close_block(), *ended]

    def _on_run_finish(self, event: ev.RunFinish) -> list[Fields]:
        chunks, ending = self._on_step_end(event), event.termination
        self._is_resting = event.awaits_tasks
        if event.awaits_tasks:
            return chunks
        self._is_asleep = isinstance(ending, Suspended)
        self._is_over = not self._is_asleep
        if isinstance(ending, Cancelled):
            chunks.append({"type": "abort", "reason": ending.cause})
        elif isinstance(ending, Failed):
            chunks.append({"type": "error", "errorText": ending.message})
        counts = {name: getattr(self._usage, it, None) for name, it in _COUNTS.items()}
        usage = {name: count for name, count in counts.items() if count is not None}
        metadata = {"runId": event.run_id, "threadId": event.thread_id, "usage": usage}
        reason = _REASONS.get(type(ending), "stop")
        if (wanted := ev.message_wait_reason(event)) is not None:
            reason, metadata["waitsFor"] = "other", wanted
        return [*chunks, {"type": "finish", "finishReason": reason, "messageMetadata": metadata}]

    def _on_error(self, event: ev.ErrorEvent) -> list[Fields]:
        self._is_over = True
        return [*self._close_block(), {"type": "error", "errorText": event.message}]

    def _write_delta(self, kind: str, block_id: str, delta: str) -> list[Fields]:
        chunks: list[Fields] = []
        if self._block is None or self._block[0] != kind:
            chunks = [*self._close_block(), {"type": f"{kind}-start", "id": block_id}]
            self._block = (kind, block_id)
        return [*chunks, {"type": f"{kind}-delta", "id": self._block[1], "delta": delta}]

    def _close_block(self) -> list[Fields]:
        if self._block is None:
            return []
        (kind, block_id), self._block = self._block, None
        self._texts += kind == "text"
        self._thoughts += kind == "reasoning"
        return [{"type": f"{kind}-end", "id": block_id}]

    def _open_call(self, type_: str, call_id: str, name: str, **fields: Any) -> Fields:
        self._calls[call_id] = name
        self._step_calls.add(call_id)
        return {"type": type_, "toolCallId": call_id, "toolName": name, **fields}

    def _show_outcome(self, call_id: str, outcome: Fields) -> list[Fields]:
        chunks = self._take_over_call(call_id)
        if call_id not in self._calls:
            return []
        fields = {name: it for name, it in outcome.items() if name not in ("state", "approval")}
        return [*chunks, {"type": f"tool-{outcome['state']}", "toolCallId": call_id, **fields}]

    def _take_over_call(self, call_id: str) -> list[Fields]:
        """Repeat a call of the previous message in this one, before its outcome."""
        if call_id in self._calls or call_id not in self._earlier:
            return []
        name, given = self._earlier[call_id]
        return [self._open_call("tool-input-available", call_id, name, input=given)]

    _HANDLERS: ClassVar[Mapping[type, Callable[["AiSdkEncoder", Any], list[Fields]]]] = {
        ev.RunStart: _on_run_start,
        ev.StepStart: _on_step_start,
        deltas.TextDelta: _on_text,
        deltas.ReasoningDelta: _on_reasoning,
        deltas.ToolCallStart: _on_tool_start,
        deltas.ToolCallDelta: _on_tool_delta,
        ev.ToolCallReady: _on_tool_ready,
        ev.ToolCallStreamDelta: _on_tool_preview,
        ev.ToolCallCancel: _on_tool_cancel,
        ev.ToolCallDone: _on_tool_done,
        ev.ToolCallResumed: _on_tool_resumed,
        ev.StreamReset: _on_stream_reset,
        ev.InferenceComplete: _on_inference,
        ev.StepEnd: _on_step_end,
        ev.RunFinish: _on_run_finish,
        ev.ErrorEvent: _on_error,
    }
