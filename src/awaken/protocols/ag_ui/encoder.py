"""Encodes a run's events as AG-UI 1.0 events, in an order that the official verifier accepts."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, get_args

from msgspec.structs import replace

from awaken.contracts import events
from awaken.contracts.lifecycle import Cancelled, Failed, Suspended
from awaken.contracts.messages import deltas
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.suspension.tickets import SuspendTicket
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.workflows.waits import asks_person, describe_wait
from awaken.transport.asgi import encode_json
from awaken.transport.frames import data_line

from .endings import message_outcome, outcome, strict_outcome, usage_entries
from .messages import arguments_text, build_reasoning_id, json_text, wire_messages
from .patch import difference, is_patch


class AgUiEncoder:
    """Encodes a run for one reader. Every block that it opens, it closes before the run ends.

    For each event there is a method `_on_…` of the same name, which writes its frames.
    """

    def __init__(
        self,
        answered: Collection[str] = (),
        thread_id: str | None = None,
        *,
        is_strict: bool = False,
    ) -> None:
        """`is_strict`: the client refuses the fields that 1.0 added to the end of a run."""
        self._thread_id = thread_id
        """The client's id of the thread; absent: the thread's own id."""
        self._is_strict = is_strict
        self._answered = set(answered)
        """Calls whose results the client sent itself, so that it has them."""
        self._frames: list[bytes] = []
        self._is_running = self._is_over = self._is_suspended = False
        self._steps = self._thoughts = 0
        self._step = self._block = self._message_id = ""
        """The open step; the kind of the open block, `text` or `reasoning`; the step's message."""
        self._calls: dict[str, bool] = {}
        """The open calls, and whether some of their arguments were streamed."""
        self._waiting: dict[str, SuspendTicket] = {}
        self._usage: dict[str, TokenUsage] = {}
        self._state: Any = None
        self._activities: dict[str, bool] = {}
        """The activities that were shown, and whether their content is wrapped in an object."""

    def encode(self, event: events.AgentEvent) -> Sequence[bytes]:
        """Encode an event; nothing after the end, unless a suspended run resumes."""
        if not self._is_over or isinstance(event, events.RunStart | events.MessagesSnapshot):
            _WRITERS[type(event)](self, event)
        frames, self._frames = self._frames, []
        return frames

    def state(self) -> object:
        """Everything that later frames depend on."""
        return vars(self)

    def _say(self, kind: str, **fields: Any) -> None:
        fields = {"type": kind} | {name: it for name, it in fields.items() if it is not None}
        self._frames.append(data_line(encode_json(fields)))

    def _custom(self, name: str, value: Any) -> None:
        self._say("CUSTOM", name=name, value=value)

    def _on_run_start(self, event: events.RunStart | events.RunFinish) -> None:
        if self._is_running or (self._is_over and not self._is_suspended):
            return
        self._is_running, self._is_over, self._steps, self._usage = True, False, 0, {}
        named = {
            "threadId": self._thread_id or event.thread_id,
            "runId": event.run_id,
            "protocolVersion": "1.0",
        }
        self._say("RUN_STARTED", **named, parentRunId=getattr(event, "parent_run_id", None))

    def _names(self, event: events.RunStart | events.RunFinish) -> dict[str, str]:
        return {"threadId": self._thread_id or event.thread_id, "runId": event.run_id}

    def _on_run_finish(self, event: events.RunFinish) -> None:
        # A run that was cancelled while it was queued never began.
        self._on_run_start(event)
        self._close_step()
        if event.awaits_tasks:
            return
        ending, result, why = event.termination, None, None
        match ending:
            case Failed(message=message, code=code):
                return self._on_error(events.ErrorEvent(message=message, code=code))
            case Suspended():
                why = message_outcome(event) or outcome(self._waiting)
            case Cancelled():
                why = {"type": "cancelled"}
            case _:
                result = event.result
        if self._is_strict:
            why = strict_outcome(why)
        named = self._names(event)
        self._say(
            "RUN_FINISHED", **named, result=result, outcome=why, usage=usage_entries(self._usage)
        )
        self._is_running, self._is_over = False, True
        self._is_suspended = isinstance(ending, Suspended)

    def _on_error(self, event: events.ErrorEvent) -> None:
        self._say(
            "RUN_ERROR", message=event.message, code=event.code, usage=usage_entries(self._usage)
        )
        self._is_running, self._is_over, self._is_suspended = False, True, False

    def _on_step_start(self, event: events.StepStart) -> None:
        self._close_step()
        self._steps, self._thoughts = self._steps + 1, 0
        self._message_id, self._step = event.message_id, f"step_{self._steps}"
        self._say("STEP_STARTED", stepName=self._step)

    def _on_step_end(self, _: events.StepEnd) -> None:
        self._close_step()

    def _close_step(self) -> None:
        self._close_all()
        if self._step:
            self._say("STEP_FINISHED", stepName=self._step)
            self._step = ""

    def _close_all(self) -> None:
        self._close_block()
        for call_id in tuple(self._calls):
            self._close_call(call_id)

    def _on_text_delta(self, event: deltas.TextDelta) -> None:
        if self._block != "text":
            self._close_block()
            self._block = "text"
            self._say("TEXT_MESSAGE_START", messageId=self._message_id, role="assistant")
        self._say("TEXT_MESSAGE_CONTENT", messageId=self._message_id, delta=event.delta)

    def _on_reasoning_delta(self, event: deltas.ReasoningDelta) -> None:
        self._say("REASONING_MESSAGE_CONTENT", messageId=self._open_thought(), delta=event.delta)

    def _on_reasoning_encrypted_value(self, event: events.ReasoningEncryptedValue) -> None:
        whose = {"subtype": "message", "entityId": self._open_thought()}
        self._say("REASONING_ENCRYPTED_VALUE", **whose, encryptedValue=event.encrypted_value)
        self._close_block()

    def _open_thought(self) -> str:
        thought = build_reasoning_id(self._message_id, self._thoughts)
        if self._block != "reasoning":
            self._close_block()
            self._block = "reasoning"
            self._say("REASONING_START", messageId=thought)
            self._say("REASONING_MESSAGE_START", messageId=thought, role="reasoning")
        return thought

    def _close_block(self) -> None:
        if self._block == "text":
            self._say("TEXT_MESSAGE_END", messageId=self._message_id)
        elif self._block == "reasoning":
            thought = build_reasoning_id(self._message_id, self._thoughts)
            self._say("REASONING_MESSAGE_END", messageId=thought)
            self._say("REASONING_END", messageId=thought)
            self._thoughts += 1
        self._block = ""

    def _on_tool_call_start(self, event: deltas.ToolCallStart | events.ToolCallReady) -> None:
        if event.id not in self._calls:
            self._close_block()
            self._calls[event.id] = False
            named = {"toolCallId": event.id, "toolCallName": event.name}
            self._say("TOOL_CALL_START", **named, parentMessageId=self._message_id or None)

    def _on_tool_call_delta(self, event: deltas.ToolCallDelta) -> None:
        if event.id in self._calls:
            self._calls[event.id] = True
            self._say("TOOL_CALL_ARGS", toolCallId=event.id, delta=event.args_delta)

    def _on_tool_call_ready(self, event: events.ToolCallReady) -> None:
        self._on_tool_call_start(event)
        if not self._calls[event.id]:
            whole = arguments_text(event.arguments)
            self._say("TOOL_CALL_ARGS", toolCallId=event.id, delta=whole)
        self._close_call(event.id)

    def _close_call(self, call_id: str) -> None:
        if self._calls.pop(call_id, None) is not None:
            self._say("TOOL_CALL_END", toolCallId=call_id)

    def _on_tool_call_done(self, event: events.ToolCallDone) -> None:
        ticket = event.result.suspension
        if ticket is not None and not asks_person(ticket):
            # No interrupt: nobody decides it.
            self._custom("waiting", {"toolCallId": event.id, "message": describe_wait(ticket)})
        elif event.result.status is ToolStatus.PENDING and ticket is not None:
            # Logs of earlier versions have other ids in this field.
            named = replace(ticket.suspension, id=event.ticket_id or event.id)
            self._waiting[event.id] = replace(ticket, suspension=named)
        else:
            self._result(event.id, event.message_id, _result_text(event.result))

    def _on_tool_call_resumed(self, event: events.ToolCallResumed) -> None:
        result = event.result
        is_error = isinstance(result, dict) and result.keys() == {"error"}
        text = json_text(result["error"] if is_error else result)
        self._result(event.target_id, event.message_id, text)

    def _on_tool_call_cancel(self, event: events.ToolCallCancel) -> None:
        # No result will come; the client must not treat the call as pending.
        self._result(event.id, "", event.reason)

    def _result(self, call_id: str, message_id: str, content: str) -> None:
        self._waiting.pop(call_id, None)
        self._close_call(call_id)
        if call_id in self._answered:
            return self._answered.discard(call_id)
        named = {"messageId": message_id or f"{call_id}:result", "toolCallId": call_id}
        self._say("TOOL_CALL_RESULT", **named, content=content, role="tool")

    def _on_tool_call_stream_delta(self, event: events.ToolCallStreamDelta) -> None:
        named = {"messageId": f"{event.id}:output", "activityType": "tool-stream-output"}
        if named["messageId"] not in self._activities:
            self._activities[named["messageId"]] = False
            content = {"toolCallId": event.id, "toolName": event.name, "delta": ""}
            self._say("ACTIVITY_SNAPSHOT", **named, content=content)
        patch = [{"op": "add", "path": "/delta", "value": event.delta}]
        self._say("ACTIVITY_DELTA", **named, patch=patch)

    def _on_activity_snapshot(self, event: events.ActivitySnapshot) -> None:
        content = event.content if isinstance(event.content, dict) else {"value": event.content}
        self._activities[event.message_id] = content is not event.content
        named = {"messageId": event.message_id, "activityType": event.activity_type}
        self._say("ACTIVITY_SNAPSHOT", **named, content=content, replace=event.replace)

    def _on_activity_delta(self, event: events.ActivityDelta) -> None:
        if not is_patch(event.patch):
            # A malformed patch would make a client abandon the whole run.
            return self._custom("activity_delta", event)
        root = "/value" if self._activities.get(event.message_id) else ""
        places = ("path", "from") if root else ()
        patch = [it | {at: root + it[at] for at in places if at in it} for it in event.patch]
        named = {"messageId": event.message_id, "activityType": event.activity_type}
        self._say("ACTIVITY_DELTA", **named, patch=patch)

    def _on_state_snapshot(self, event: events.StateSnapshot) -> None:
        known, self._state = self._state, event.snapshot or {}
        if known is None:
            self._say("STATE_SNAPSHOT", snapshot=self._state)
        elif changes := difference(known, self._state):
            self._say("STATE_DELTA", delta=changes)

    def _on_state_delta(self, event: events.StateDelta) -> None:
        if not is_patch(event.delta):
            return self._custom("state_delta", event)
        self._state = None
        self._say("STATE_DELTA", delta=event.delta)

    def _on_messages_snapshot(self, event: events.MessagesSnapshot) -> None:
        self._say("MESSAGES_SNAPSHOT", messages=wire_messages(event.messages))

    def _on_stream_reset(self, event: events.StreamReset) -> None:
        self._close_all()
        self._custom("stream_reset", {"reason": event.reason, "scope": event.scope})

    def _on_inference_complete(self, event: events.InferenceComplete) -> None:
        used = {} if event.usage is None else {event.model: event.usage}
        for model, usage in used.items():
            self._usage[model] = usage.plus(self._usage.get(model))
        fields = {
            "model": event.model,
            "durationMs": event.duration_ms,
            "usage": usage_entries(used),
        }
        self._custom("inference_complete", fields)


_WRITERS: Mapping[type, Callable[[AgUiEncoder, Any], None]] = {
    it: getattr(AgUiEncoder, f"_on_{it.__struct_config__.tag}")
    for it in get_args(events.AgentEvent)
}


def _result_text(result: ToolResult) -> str:
    if result.status is ToolStatus.ERROR:
        return result.message or "tool error"
    return json_text(result.data) if result.message is None else result.message
