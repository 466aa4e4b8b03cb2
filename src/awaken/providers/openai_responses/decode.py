"""An answer of Responses, event by event; events without meaning for us are skipped."""

from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.models.errors import (
    AnswerTooLarge,
    ContentFiltered,
    MalformedAnswer,
    StreamInterrupted,
)
from awaken.contracts.models.inference import (
    BlockStop,
    ModelEvent,
    Stop,
    StopReason,
    TokenUsage,
    UsageReport,
    VendorAnswer,
)
from awaken.providers.http.codec import read_vendor_answer
from awaken.providers.http.counts import Count, make_usage_reader
from awaken.providers.http.failures import failure_of_event

from .reasoning_items import ORIGIN, ReasoningItem, make_signature

MAX_CALLS = 1_024
"""The maximum number of tool calls in one answer."""


class _Event(msgspec.Struct):
    type: str
    delta: Any = None
    output_index: int = 0
    summary_index: int = 0
    item: msgspec.Raw = msgspec.Raw(b"{}")
    response: msgspec.Raw = msgspec.Raw(b"{}")


class _Item(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    encrypted_content: str | None = None
    phase: str | None = None


class _InputDetails(msgspec.Struct):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: Count | None = None


class _Usage(msgspec.Struct):
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    total_tokens: Count | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    id: Any = None
    model: Any = None
    usage: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw(b"{}")
    incomplete_details: _Incomplete | None = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_item = msgspec.json.Decoder(_Item).decode
_decode_response = msgspec.json.Decoder(_Response).decode
_read_usage = make_usage_reader(_Usage)


class _Call(msgspec.Struct):
    id: str
    has_arguments: bool = False


class ResponsesDecoder:
    """Reads one answer. Usage and stop reason come with its last event."""

    __slots__ = ("_calls", "_incomplete", "_is_raw", "_origin", "is_over", "vendor")

    def __init__(self, origin: str = ORIGIN) -> None:
        self.is_over = False
        self.vendor: VendorAnswer | None = None
        self._origin = origin
        self._calls: dict[int, _Call] = {}
        self._incomplete: str | None = None
        self._is_raw = False

    def take(self, data: bytes) -> Sequence[ModelEvent]:
        """Read the data of one event.

        Raises:
            ModelError: The provider reports a failure, or this is not its protocol.
        """
        if self.is_over or data.strip() == b"[DONE]":
            return ()
        try:
            return self._read(_decode(data), data)
        except (ValueError, RecursionError) as error:
            message = f"an event of the answer cannot be read: {error}"
            raise MalformedAnswer(message) from error

    def end(self) -> Sequence[ModelEvent]:
        """Check that the answer was complete when the connection closed.

        Raises:
            StreamInterrupted: The answer was incomplete.
            ContentFiltered: The provider's content filter ended it.
        """
        if not self.is_over:
            raise StreamInterrupted("the stream ended before the answer did")
        if self._incomplete == "content_filter":
            raise ContentFiltered("the provider's content filter ended the answer")
        return ()

    def _read(self, event: _Event, data: bytes) -> Sequence[ModelEvent]:
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                return (TextDelta(delta=_text(event.delta)),)
            case "response.function_call_arguments.delta":
                return self._continue_call(event.output_index, _text(event.delta))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._is_raw = event.type == "response.reasoning_text.delta"
                return (ReasoningDelta(delta=_text(event.delta)),)
            case "response.reasoning_summary_part.added" if event.summary_index:
                return (ReasoningDelta(delta="\n\n"),)
        return self._read_mark(event, data)

    def _read_mark(self, event: _Event, data: bytes) -> Sequence[ModelEvent]:
        match event.type:
            case "response.output_item.added":
                return self._open(event.output_index, _decode_item(event.item))
            case "response.output_item.done":
                return self._close(event.output_index, _decode_item(event.item))
            case "response.completed":
                reason = StopReason.TOOL_USE if self._calls else StopReason.END_TURN
                return self._end_answer(_decode_response(event.response), reason)
            case "response.incomplete":
                response = _decode_response(event.response)
                self._incomplete = (response.incomplete_details or _Incomplete()).reason
                is_cut = self._incomplete == "max_output_tokens"
                return self._end_answer(response, StopReason.MAX_TOKENS if is_cut else None)
            case "response.failed":
                raise failure_of_event(bytes(_decode_response(event.response).error))
            case "error":
                raise failure_of_event(data)
        return ()

    def _open(self, index: int, item: _Item) -> Sequence[ModelEvent]:
        if item.type == "message" and item.phase:
            return (
                make_signature(
                    ReasoningItem(phase=item.phase, calls_before=self._call_ids()), self._origin
                ),
            )
        if item.type == "reasoning":
            self._is_raw = False
        if item.type != "function_call" or index in self._calls:
            return ()
        if len(self._calls) >= MAX_CALLS:
            message = f"the answer has more than {MAX_CALLS} tool calls"
            raise AnswerTooLarge(message)
        call_id = item.call_id or item.id or f"call_{index}"
        self._calls[index] = _Call(id=call_id)
        return (ToolCallStart(id=call_id, name=item.name or ""),)

    def _continue_call(self, index: int, text: str) -> Sequence[ModelEvent]:
        call = self._calls.get(index)
        if call is None or not text:
            return ()
        call.has_arguments = True
        return (ToolCallDelta(id=call.id, args_delta=text),)

    def _close(self, index: int, item: _Item) -> Sequence[ModelEvent]:
        match item.type:
            case "message":
                return (BlockStop(),)
            case "reasoning":
                kept = ReasoningItem(
                    id=item.id,
                    encrypted_content=item.encrypted_content,
                    is_raw=self._is_raw,
                    calls_before=self._call_ids(),
                )
                return (make_signature(kept, self._origin),)
            case "function_call":
                # Some servers send a call only as a whole, without deltas.
                events = list(self._open(index, item))
                if not self._calls[index].has_arguments:
                    events += self._continue_call(index, item.arguments or "")
                return events
        return ()

    def _call_ids(self) -> tuple[str, ...]:
        return tuple(call.id for call in self._calls.values())

    def _end_answer(self, response: _Response, reason: StopReason | None) -> Sequence[ModelEvent]:
        self.is_over = True
        self.vendor = read_vendor_answer(response.id, response.model)
        usage, events = _read_usage(response.usage), list[ModelEvent]()
        if usage is not None:
            events.append(UsageReport(usage=_tokens(usage)))
        if reason is not None:
            events.append(Stop(reason=reason))
        return events


def _text(delta: Any) -> str:
    if not isinstance(delta, str):
        message = "a delta is not text"
        raise MalformedAnswer(message)
    return delta


def _tokens(usage: _Usage) -> TokenUsage:
    read = usage.input_tokens_details or _InputDetails()
    thought = usage.output_tokens_details or _OutputDetails()
    return TokenUsage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        cache_read_tokens=read.cached_tokens,
        cache_creation_tokens=read.cache_write_tokens,
        thinking_tokens=thought.reasoning_tokens,
    )
