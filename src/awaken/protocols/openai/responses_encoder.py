"""Encodes a run for the Responses API: its output items, and the events that build them.

Each character of text counts in the sequence numbers, so that they do not depend on how the text
was split: a client that was disconnected anywhere gets exactly the rest. When a model restarts a
turn, its previous item stays as incomplete.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from awaken.contracts import events as ev
from awaken.contracts.lifecycle import Suspended
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta
from awaken.contracts.suspension.tickets import Asks, ToolCallOutcome
from awaken.contracts.workflows.waits import asks_person, awaits_message, describe_wait
from awaken.transport.asgi import encode_json

from .answer import AnswerEncoder, Handlers, as_text, form_of, outside_id, response_status

Item = dict[str, Any]

_BLANK: Item = {
    "object": "response", "error": None, "incomplete_details": None, "parallel_tool_calls": True,
    "tool_choice": "auto", "tools": [], "store": True, "text": {"format": {"type": "text"}},
}  # fmt: skip
"""The default fields of a response."""


class _TextKind(NamedTuple):
    """The encoding of one kind of text."""

    prefix: str
    """The prefix of its item's id."""
    name: str
    item: Item
    part: Item
    extra: Item
    """Further fields of its events and its part."""

    def part_of(self, text: str) -> Item:
        """The content of its item."""
        return {"type": self.name, "text": text, **self.part, **self.extra}


_MESSAGE = {"type": "message", "role": "assistant"}
_REASONING = {"type": "reasoning", "summary": []}
_TEXTS = {
    TextDelta: _TextKind("msg", "output_text", _MESSAGE, {"annotations": []}, {"logprobs": []}),
    ReasoningDelta: _TextKind("rs", "reasoning_text", _REASONING, {}, {}),
}


class ResponsesEncoder(AnswerEncoder):
    """Builds one response; `after` is the latest sequence number that the client has."""

    def __init__(self, frame: Mapping[str, Any], run_id: str, after: int = -1) -> None:
        super().__init__(frame, run_id)
        self._after = after
        self._approvals: dict[str, str] = {}
        self._waits: dict[str, bool] = {}
        """The calls that wait, and whether they go on without the client: a time, or an event."""
        self._noted: int | None = None
        """How much of the output is there for good: notes on what it waits for come after."""
        self.forget()

    def forget(self, status: str = "queued") -> None:
        """Start again: the events so far belong to earlier responses of the run."""
        self._status = status
        self._output: list[Item] = []
        self._open: tuple[_TextKind, Item] | None = None
        self._text: list[str] = []
        self._index = self._number = 0
        self._step = (0, 0)
        self._why: dict[str, Any] = {}
        self.usage, self.is_resting = None, False

    def document(self) -> dict[str, Any]:
        """The current response."""
        usage = self.usage and self.usage_fields("input", "output")
        state = {"status": self._status, "output": list(self._output), "usage": usage}
        return {**_BLANK, **self.frame, **state, **self._why}

    def _begin(self, _: ev.RunStart | None = None) -> None:
        # Events before a suspension belong to an earlier response.
        self.forget("in_progress")
        self._emit("response.created", response=self.document())
        self._emit("response.in_progress", response=self.document())

    def _begin_step(self, _: ev.StepStart) -> None:
        self._step, self.held = (len(self._output), self._number), ""

    def _say(self, event: TextDelta | ReasoningDelta) -> None:
        if self.hold_back(event):
            return
        kind = _TEXTS[type(event)]
        if self._open is None or self._open[0] != kind:
            self._close()
            item = {"id": self._item_id(kind.prefix), "content": [], "status": "in_progress"}
            self._open = (kind, {**item, **kind.item})
            self._emit("response.output_item.added", **self._at(), item=self._open[1])
            self._emit_in_text("response.content_part.added", part=kind.part_of(""))
        self._text.append(event.delta)
        begin, self._number = self._number, self._number + len(event.delta)
        rest = event.delta[max(0, self._after + 1 - begin) :]
        if rest:
            self._number -= 1
            self._emit_in_text(f"response.{kind.name}.delta", delta=rest, **kind.extra)

    def _close(self, status: str = "completed") -> None:
        if self._open is None:
            return
        (kind, item), text = self._open, "".join(self._text)
        part = kind.part_of(text)
        self._emit_in_text(f"response.{kind.name}.done", text=text, **kind.extra)
        self._emit_in_text("response.content_part.done", part=part)
        self._open, self._text = None, []
        self._finish_item({**item, "content": [part], "status": status})

    def _count(self, event: ev.InferenceComplete) -> None:
        self._close()
        self.count(event)

    def _end_call(self, event: ev.ToolCallDone) -> None:
        self._close()
        ticket, call = event.result.suspension, self.call_of(event.id, event.result.tool_name)
        self._waits.pop(event.id, None)
        if ticket is not None:
            self._waits[event.id] = not (asks_person(ticket) or awaits_message(ticket))
        public = outside_id(event.id, self.run_id)
        if ticket is None:
            is_failed = event.outcome is ToolCallOutcome.FAILED
            error = (event.result.message or "it failed") if is_failed else None
            self._show_call(event.id, event.result.data, error)
        elif not asks_person(ticket):
            if self._noted is None:
                self._noted = len(self._output)
            self._say(TextDelta(delta=f"[{describe_wait(ticket)}]"))
            self._close()
        elif ticket.question_kind is Asks.ANSWER:
            self._approvals.pop(event.id, None)
            call = form_of(ticket, call)
            item = {"id": self._item_id("fc"), "type": "function_call", "call_id": public, **call}
            event_name = "response.function_call_arguments"
            pieces = (
                (f"{event_name}.delta", {"delta": call["arguments"]}),
                (f"{event_name}.done", call),
            )
            self._show({**item, "status": "completed"}, {"arguments": ""}, *pieces)
        else:
            public = outside_id(event.ticket_id or event.id, self.run_id)
            self._approvals[event.id] = public
            label = self.frame["model"]
            item = {"id": public, "type": "mcp_approval_request", "server_label": label, **call}
            self._show(item, {})

    def _resume(self, event: ev.ToolCallResumed) -> None:
        self._waits.pop(event.target_id, None)
        # The client knows its own answers; only approved calls are shown.
        if event.target_id in self._approvals:
            error = event.result.get("error") if isinstance(event.result, dict) else None
            error = error or (event.result if event.is_declined else None)
            self._show_call(event.target_id, event.result, error and as_text(error))

    def _show_call(self, call_id: str, result: Any, error: str | None) -> None:
        """Show a call of one of the agent's own tools, with its outcome."""
        call = self.call_of(call_id)
        fault = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": error}]}
        approval, label = self._approvals.pop(call_id, None), self.frame["model"]
        item = {"id": self._item_id("mcp"), "type": "mcp_call", "server_label": label, **call}
        item |= {"approval_request_id": approval, "status": "failed" if error else "completed"}
        item |= {"output": None if error else as_text(result), "error": fault if error else None}
        event_name = "response.mcp_call_arguments.done", {"arguments": call["arguments"]}
        ended: tuple[str, Item] = f"response.mcp_call.{item['status']}", {}
        self._show(item, {"output": None, "error": None}, event_name, ended)

    def _show(self, item: Item, blank: Item, *pieces: tuple[str, Item]) -> None:
        """Show an item that is complete at once; `blank` replaces fields that come later."""
        begun = {**item, **blank, "status": "in_progress"} if blank else item
        self._emit("response.output_item.added", **self._at(), item=begun)
        for type_, fields in pieces:
            self._emit(type_, item_id=item["id"], **self._at(), **fields)
        self._finish_item(item)

    def _reset(self, _: ev.StreamReset) -> None:
        self._close("incomplete")
        self.held = ""
        kept, self._number = self._step
        del self._output[kept:]
        self._after = -1

    def _finish(self, event: ev.RunFinish) -> None:
        if self._status == "queued":
            self._begin()
        if (text := self.take_held_text(event.termination)) is not None:
            self._say(text)
        self._status, self._why = response_status(event.termination)
        self._close("completed" if self._status == "completed" else "incomplete")
        name = "incomplete" if self._status == "cancelled" else self._status
        is_waiting = isinstance(event.termination, Suspended) and bool(self._waits)
        if is_waiting and all(self._waits.values()):
            # A workflow that sleeps: the client has nothing to answer, and gets the rest later.
            self._status, self.is_resting = "in_progress", True
        self._emit(f"response.{name}", response=self.document())

    def go_on(self) -> None:
        """Continue the answer of a run that waited: what it waited for is no part of it."""
        if self._noted is not None:
            del self._output[self._noted :]
            self._noted = None

    def _fail(self, event: ev.ErrorEvent) -> None:
        # It uses no sequence number, so that a client that attaches again misses nothing.
        self._number, self._after = self._number - 1, -2
        self._emit("error", code=event.code, message=event.message, param=None)

    def _finish_item(self, item: Item) -> None:
        self._output.append(item)
        self._emit("response.output_item.done", **self._at(), item=item)
        self._index += 1

    def _emit(self, type_: str, **fields: Any) -> None:
        number, self._number = self._number, self._number + 1
        if number > self._after:
            payload = encode_json({"type": type_, "sequence_number": number, **fields})
            self.lines.append(b"event: %b\ndata: %b" % (type_.encode(), payload))

    def _emit_in_text(self, type_: str, **fields: Any) -> None:
        assert self._open is not None
        item_id = self._open[1]["id"]
        self._emit(type_, item_id=item_id, **self._at(), content_index=0, **fields)

    def _at(self) -> Item:
        return {"output_index": self._index}

    def _item_id(self, prefix: str) -> str:
        return f"{prefix}_{self.frame['id'].removeprefix('resp_')}_{self._index}"

    HANDLERS: ClassVar[Handlers] = {
        **AnswerEncoder.HANDLERS, ev.RunStart: _begin, ev.StepStart: _begin_step, TextDelta: _say,
        ReasoningDelta: _say, ev.InferenceComplete: _count, ev.ToolCallDone: _end_call,
        ev.ToolCallResumed: _resume, ev.StreamReset: _reset, ev.RunFinish: _finish,
        ev.ErrorEvent: _fail,
    }  # fmt: skip
