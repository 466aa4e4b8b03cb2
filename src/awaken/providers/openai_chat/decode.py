"""An answer of Chat Completions, chunk by chunk, as OpenAI and compatible servers stream it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta
from awaken.contracts.models.errors import (
    ContentFiltered,
    MalformedAnswer,
    ModelError,
    Overloaded,
    ProviderFailed,
    StreamInterrupted,
)
from awaken.contracts.models.inference import (
    ModelEvent,
    Stop,
    StopReason,
    ThinkingSignature,
    UsageReport,
    VendorAnswer,
)
from awaken.providers.http.codec import read_vendor_answer
from awaken.providers.http.counts import has_value
from awaken.providers.http.failures import failure_of_event

from .calls import CallPiece, Calls
from .details import ChatDetails
from .usage import tokens_of

ORIGIN = "openai_chat"
_END = b"[DONE]"
_STOPS: Mapping[str, StopReason] = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "model_length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
}
_GIVEN_UP: Mapping[str, tuple[type[ModelError], str]] = {
    "content_filter": (ContentFiltered, "the provider's content filter ended the answer"),
    "insufficient_system_resource": (Overloaded, "the provider has no capacity for the answer"),
    "error": (ProviderFailed, "the provider ended the answer with an error"),
}


class _Part(msgspec.Struct):
    """Mistral streams content in parts when the model reasons."""

    text: str = ""
    thinking: list["_Part"] = []


class _Delta(msgspec.Struct):
    content: str | list[_Part] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[CallPiece] | None = None


class _Choice(msgspec.Struct):
    index: int | None = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    id: str | None = None
    model: Any = None
    choices: list[_Choice] | None = None
    usage: msgspec.Raw = msgspec.Raw()
    error: Any = None
    object: str | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


class ChatDecoder:
    """Reads one answer. Usage and stop reason are reported once, at its end."""

    __slots__ = (
        "_answer_id",
        "_calls",
        "_details",
        "_finish",
        "_has_begun",
        "_is_thinking",
        "_origin",
        "_usage",
        "is_over",
        "vendor",
    )

    def __init__(self, origin: str = ORIGIN) -> None:
        self.is_over = False
        self.vendor: VendorAnswer | None = None
        self._origin = origin
        self._answer_id = ""
        self._has_begun = False
        self._calls = Calls()
        self._details = ChatDetails()
        self._finish: str | None = None
        self._is_thinking = False
        self._usage = msgspec.Raw()

    def take(self, data: bytes) -> Sequence[ModelEvent]:
        """Read the data of one event.

        Raises:
            ModelError: The provider reports a failure, or this is not its protocol.
        """
        if self.is_over:
            return ()
        if data[-1:] != b"}" and data.strip() == _END:
            return self._end_answer()
        try:
            return self._read(_decode(data), data)
        except (ValueError, RecursionError) as error:
            message = f"a chunk of the answer cannot be read: {error}"
            raise MalformedAnswer(message) from error

    def end(self) -> Sequence[ModelEvent]:
        """Return the last events after the connection was closed.

        Raises:
            StreamInterrupted: The answer was incomplete.
            ModelError: The provider ended the answer with a failure.
        """
        if self._finish is None:
            raise StreamInterrupted("the stream ended before the answer did")
        if self._finish in _GIVEN_UP:
            made, problem = _GIVEN_UP[self._finish]
            raise made(problem)
        return () if self.is_over else self._end_answer()

    def _end_answer(self) -> list[ModelEvent]:
        self.is_over = True
        events: list[ModelEvent] = []
        self._close_thought(events)
        events += self._calls.begin_waiting(self._answer_id, is_last=True)
        if (usage := tokens_of(self._usage)) is not None:
            events.append(UsageReport(usage=usage))
        if self._finish is None and self._has_begun:
            # Some servers send the end mark without a stop reason.
            self._finish = "stop"
        reason = _STOPS.get(self._finish or "")
        if reason is not None:
            has_calls = self._calls.count and reason is StopReason.END_TURN
            events.append(Stop(reason=StopReason.TOOL_USE if has_calls else reason))
        return events

    def _read(self, chunk: _Chunk, data: bytes) -> Sequence[ModelEvent]:
        if chunk.usage and has_value(chunk.usage):
            # Some servers repeat the usage with every chunk: only the last one counts.
            self._usage = chunk.usage
        if chunk.error is not None or chunk.object == "error":
            raise failure_of_event(data)
        events: list[ModelEvent] = []
        for choice in chunk.choices or ():
            # Other choices are alternative answers.
            if not choice.index:
                self._answer_id = chunk.id or self._answer_id
                if not self._has_begun:
                    self.vendor = read_vendor_answer(chunk.id, chunk.model)
                self._has_begun = True
                if choice.delta is not None:
                    self._take(choice.delta, events)
                self._finish = choice.finish_reason or self._finish
        return events

    def _take(self, delta: _Delta, events: list[ModelEvent]) -> None:
        thought = delta.reasoning_content or delta.reasoning
        if thought:
            self._think(thought, events)
        if delta.reasoning_details:
            self._is_thinking = True
            self._details.take(delta.reasoning_details)
        content = delta.content
        if type(content) is list:
            self._take_parts(content, events)
        elif type(content) is str and content:
            self._say(content, events)
        if delta.refusal:
            self._say(delta.refusal, events)
        if delta.tool_calls:
            self._close_thought(events)
            for piece in delta.tool_calls:
                events += self._calls.take(piece, self._answer_id)

    def _take_parts(self, parts: list[_Part], events: list[ModelEvent]) -> None:
        for part in parts:
            for thought in part.thinking:
                self._think(thought.text, events)
            if part.text:
                self._say(part.text, events)

    def _say(self, text: str, events: list[ModelEvent]) -> None:
        if self._is_thinking:
            self._close_thought(events)
        events.append(TextDelta(delta=text))

    def _think(self, thought: str, events: list[ModelEvent]) -> None:
        self._is_thinking = True
        events.append(ReasoningDelta(delta=thought))

    def _close_thought(self, events: list[ModelEvent]) -> None:
        if self._is_thinking:
            self._is_thinking = False
            events.append(ThinkingSignature(signature=self._details.close(), origin=self._origin))
