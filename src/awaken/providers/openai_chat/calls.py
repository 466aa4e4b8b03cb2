"""Tool calls assembled from pieces: names, ids and indexes may come late, twice or never."""

from typing import Any

import msgspec

from awaken.contracts.messages.deltas import ToolCallDelta, ToolCallStart
from awaken.contracts.models.errors import AnswerTooLarge
from awaken.contracts.models.inference import ModelEvent

MAX_CALLS = 1_024
"""The maximum number of tool calls in one answer."""
_ID_CHARS = 40


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallPiece(msgspec.Struct):
    """The part of one call that one chunk contains."""

    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Call(msgspec.Struct):
    """A call as far as it is known; it begins once it has a name and an id."""

    number: int
    id: str = ""
    name: str = ""
    held: list[str] = []
    has_begun: bool = False


class Calls:
    """The tool calls of one answer."""

    __slots__ = ("_by_index", "_newest", "count")

    def __init__(self) -> None:
        self.count = 0
        self._by_index: dict[int, _Call] = {}
        """The newest call of every index."""
        self._newest = 0

    def take(self, piece: CallPiece, answer_id: str) -> list[ModelEvent]:
        """Read one piece; `answer_id` makes generated ids differ from those of other answers.

        Raises:
            AnswerTooLarge: There are too many calls.
        """
        events: list[ModelEvent] = []
        function = piece.function or _Function()
        call = self._by_index.get(self._newest if piece.index is None else piece.index)
        if call is None or _is_other(piece, function.name, call):
            events += self.begin_waiting(answer_id)
            call = self._open_call(piece.index)
        arguments = function.arguments or ""
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        if call.has_begun:
            return [*events, ToolCallDelta(id=call.id, args_delta=text)] if text else events
        call.id = call.id or piece.id or ""
        call.name = call.name or function.name or ""
        if text:
            call.held.append(text)
        return [*events, *_begin(call)] if call.id and call.name else events

    def begin_waiting(self, answer_id: str, *, is_last: bool = False) -> list[ModelEvent]:
        """Begin the calls that still have no id; at the end also those without a name."""
        events: list[ModelEvent] = []
        for call in self._by_index.values():
            if not call.has_begun and (call.name or is_last):
                call.id = call.id or f"call_{answer_id[-_ID_CHARS:]}_{call.number}"
                events += _begin(call)
        return events

    def _open_call(self, index: int | None) -> _Call:
        if self.count >= MAX_CALLS:
            message = f"the answer has more than {MAX_CALLS} tool calls"
            raise AnswerTooLarge(message)
        call = _Call(number=self.count)
        self._newest = self.count if index is None else index
        self._by_index[self._newest] = call
        self.count += 1
        return call


def _is_other(piece: CallPiece, name: str | None, call: _Call) -> bool:
    """Whether a piece begins another call: some servers give all calls one index, or none."""
    if not (name and call.name):
        return False
    if piece.index is None:
        return not piece.id or piece.id != call.id
    return bool(piece.id and call.id) and piece.id != call.id


def _begin(call: _Call) -> list[ModelEvent]:
    call.has_begun = True
    start, held = ToolCallStart(id=call.id, name=call.name), "".join(call.held)
    call.held.clear()
    return [start, ToolCallDelta(id=call.id, args_delta=held)] if held else [start]
