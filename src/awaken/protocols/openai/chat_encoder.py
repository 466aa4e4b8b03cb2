"""Encodes a run for Chat Completions: one message, and the calls that the client must answer.

The texts of several steps are joined with a blank line. Chat has no approvals: the answer says
that the run waits for one, which another protocol can decide.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from awaken.contracts import events as ev
from awaken.contracts.lifecycle import Cancelled, Failed
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta
from awaken.contracts.suspension.tickets import Asks
from awaken.contracts.workflows.waits import asks_person, describe_wait
from awaken.transport.asgi import encode_json
from awaken.transport.frames import data_line

from .answer import AnswerEncoder, Handlers, form_of, outside_id, response_status
from .wire import error_body

CANCELLED = ev.ErrorEvent(message="The run was cancelled.", code="cancelled")
"""The text so far is in the thread; chat has no status for a cancelled answer."""


class ChatEncoder(AnswerEncoder):
    """Builds one completion."""

    def __init__(self, frame: Mapping[str, Any], run_id: str, *, has_usage: bool) -> None:
        super().__init__(frame, run_id)
        self._has_usage = has_usage
        self.failure: Failed | ev.ErrorEvent | None = None
        self._begin()

    def document(self) -> dict[str, Any]:
        """The completion, when the run has ended or waits."""
        message: dict[str, Any] = {"role": "assistant", "content": self._text or None}
        if self._reasoning:
            message["reasoning_content"] = self._reasoning
        if self._asked:
            message["tool_calls"] = self._asked
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._reason}
        usage = self.usage_fields("prompt", "completion")
        return {**self.frame, "object": "chat.completion", "choices": [choice], "usage": usage}

    def _begin(self, _: ev.RunStart | None = None) -> None:
        self._text = self._reasoning = ""
        self._step_text, self._has_said = 0, False
        self._asked: list[dict[str, Any]] = []
        self._reason = "stop"
        self.usage = None
        self._emit({"role": "assistant", "content": ""})

    def _begin_step(self, _: ev.StepStart) -> None:
        self._step_text, self.held = len(self._text), ""

    def _say(self, event: TextDelta) -> None:
        if self.hold_back(event):
            return
        is_first = len(self._text) == self._step_text
        delta = f"\n\n{event.delta}" if is_first and self._has_said else event.delta
        self._text += delta if self._text else event.delta
        self._has_said = True
        self._emit({"content": delta})

    def _think(self, event: ReasoningDelta) -> None:
        self._reasoning += event.delta
        self._emit({"reasoning_content": event.delta})

    def _end_call(self, event: ev.ToolCallDone) -> None:
        ticket, name = event.result.suspension, event.result.tool_name
        if ticket is None:
            return
        if not asks_person(ticket):
            self._say(TextDelta(delta=f"[{describe_wait(ticket)}]"))
            return
        if ticket.question_kind is not Asks.ANSWER:
            self._say(TextDelta(delta=f"[The call of '{name}' waits for an approval.]"))
            return
        call_id = outside_id(event.id, self.run_id)
        function = form_of(ticket, self.call_of(event.id, name))
        call = {"id": call_id, "type": "function", "function": function}
        self._emit({"tool_calls": [{"index": len(self._asked), **call}]})
        self._asked.append(call)

    def _reset(self, _: ev.StreamReset) -> None:
        # Streamed text cannot be discarded; the next attempt begins a new paragraph.
        self._text, self.held = self._text[: self._step_text], ""

    def _finish(self, event: ev.RunFinish) -> None:
        if isinstance(event.termination, Failed):
            self._fail(event.termination)
            return
        if isinstance(event.termination, Cancelled):
            self._fail(CANCELLED)
            return
        if (text := self.take_held_text(event.termination)) is not None:
            self._say(text)
        status, why = response_status(event.termination)
        if status == "incomplete":
            is_filtered = why["incomplete_details"]["reason"] == "content_filter"
            self._reason = "content_filter" if is_filtered else "length"
        elif status == "completed" and self._asked:
            self._reason = "tool_calls"
        self._emit({}, self._reason)
        if self._has_usage:
            self._write_chunk(choices=[], usage=self.usage_fields("prompt", "completion"))
        self._write(b"[DONE]")

    def _fail(self, event: ev.ErrorEvent | Failed) -> None:
        self.failure = event
        self._write(encode_json(error_body(event.message, event.code)))
        self._write(b"[DONE]")

    def _emit(self, delta: dict[str, Any], reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        self._write_chunk(choices=[choice], **({"usage": None} if self._has_usage else {}))

    def _write_chunk(self, **fields: Any) -> None:
        chunk = {**self.frame, "object": "chat.completion.chunk", **fields}
        self._write(encode_json(chunk))

    def _write(self, payload: bytes) -> None:
        self.lines.append(data_line(payload))

    HANDLERS: ClassVar[Handlers] = {
        **AnswerEncoder.HANDLERS, ev.RunStart: _begin, ev.StepStart: _begin_step, TextDelta: _say,
        ReasoningDelta: _think, ev.ToolCallDone: _end_call, ev.StreamReset: _reset,
        ev.RunFinish: _finish, ev.ErrorEvent: _fail,
    }  # fmt: skip
