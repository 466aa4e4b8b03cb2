"""The Converse stream as model events. Pure: frames in, events out, one object for one answer."""

from collections.abc import Callable, Sequence, Sized
from typing import Annotated

import msgspec

from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.models.errors import (
    AnswerTooLarge,
    ContentFiltered,
    MalformedAnswer,
    ModelError,
    StreamInterrupted,
)
from awaken.contracts.models.inference import (
    BlockStop,
    ModelEvent,
    Stop,
    StopReason,
    ThinkingSignature,
    TokenUsage,
    UsageReport,
)
from awaken.providers.http.failures import failure

from .frames import BedrockFrame

ORIGIN = "bedrock"
REDACTED = "redacted:"
"""Prefix of the signature of reasoning that only the vendor can read."""
_OPEN_BLOCKS = 1024
_STOPS = {
    "end_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
}
_REFUSALS: dict[str, type[ModelError]] = {
    "guardrail_intervened": ContentFiltered,
    "content_filtered": ContentFiltered,
    "malformed_model_output": MalformedAnswer,
    "malformed_tool_use": MalformedAnswer,
}
_KINDS = {"modelerrorexception": "modelstreamerrorexception"}
"""Error codes of this vendor that stand for another known code."""


class _Call(msgspec.Struct, rename="camel"):
    tool_use_id: str
    name: str
    type: str | None = None


class _Start(msgspec.Struct, rename="camel"):
    tool_use: _Call | None = None


class _Input(msgspec.Struct):
    input: str


class _Reasoning(msgspec.Struct, rename="camel"):
    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class _Delta(msgspec.Struct, rename="camel"):
    text: str | None = None
    tool_use: _Input | None = None
    reasoning_content: _Reasoning | None = None


_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Usage(msgspec.Struct, rename="camel"):
    input_tokens: _Count = 0
    output_tokens: _Count = 0
    cache_read_input_tokens: _Count | None = None
    cache_write_input_tokens: _Count | None = None


class _Event(msgspec.Struct, rename="camel"):
    content_block_index: int = 0
    start: _Start | None = None
    delta: _Delta | None = None
    stop_reason: str = "end_turn"
    usage: _Usage | None = None


class _Problem(msgspec.Struct):
    message: str = ""


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode_event = msgspec.json.Decoder(_Event).decode


def build_error(
    status: int | None, kind: str | None, body: bytes, wait_ms: int | None
) -> ModelError:
    """Return the error for a failure that Bedrock reports, in a stream or instead of one."""
    try:
        message = msgspec.json.decode(body, type=_Problem).message
    except _UNREADABLE:
        message = body.decode(errors="replace")
    word = (kind or "").lower()
    return failure(status, _KINDS.get(word, word), message or word, wait_ms)


class ConverseDecoder:
    """Reads one answer. It ends with its `metadata`, which follows the stop reason."""

    __slots__ = ("_blocks", "_failure", "_readers", "_stop", "_thoughts", "is_over")

    def __init__(self) -> None:
        self.is_over = False
        self._stop: Stop | None = None
        self._failure: ModelError | None = None
        self._blocks: dict[int, str | None] = {}
        self._thoughts: dict[int, list[str]] = {}
        self._readers: dict[str, Callable[[_Event], Sequence[ModelEvent]]] = {
            "contentBlockStart": self._start_block,
            "contentBlockDelta": self._continue_block,
            "contentBlockStop": self._end_block,
            "messageStop": self._note_stop,
            "metadata": self._end_answer,
        }

    def take(self, frame: BedrockFrame) -> Sequence[ModelEvent]:
        """Read one frame; unknown kinds of events are skipped.

        Raises:
            ModelError: The vendor reports a failure, or this is not its protocol.
        """
        headers = frame.headers
        if headers.get(":message-type", "event") != "event":
            kind = headers.get(":exception-type") or headers.get(":error-code")
            body = headers.get(":error-message", "").encode() or frame.payload
            raise build_error(None, kind, body, None)
        read = self._readers.get(headers.get(":event-type", ""))
        if read is None:
            return ()
        try:
            event = _decode_event(frame.payload)
        except _UNREADABLE as error:
            message = f"an event of the stream cannot be read: {type(error).__name__}"
            raise MalformedAnswer(message) from error
        return read(event)

    @property
    def has_stopped(self) -> bool:
        """Whether the stop reason has come; only token counts can follow it."""
        return self._stop is not None

    def end(self) -> Sequence[ModelEvent]:
        """Return the last events after the connection was closed.

        Raises:
            ModelError: The model refused, or the answer was not over.
        """
        if self._failure is not None:
            raise self._failure
        if self._stop is None:
            message = "the connection was closed in the middle of the answer"
            raise StreamInterrupted(message)
        return () if self.is_over else (self._stop,)

    def _start_block(self, event: _Event) -> Sequence[ModelEvent]:
        call = event.start.tool_use if event.start else None
        if call is None:
            return ()
        _check_room(self._blocks)
        # A call that the vendor executes itself is not ours: its parts are skipped.
        is_ours = call.type is None
        self._blocks[event.content_block_index] = call.tool_use_id if is_ours else None
        return (ToolCallStart(id=call.tool_use_id, name=call.name),) if is_ours else ()

    def _continue_block(self, event: _Event) -> Sequence[ModelEvent]:
        delta = event.delta or _Delta()
        if delta.text is not None:
            return (TextDelta(delta=delta.text),) if delta.text else ()
        if delta.reasoning_content is not None:
            return self._continue_thought(event.content_block_index, delta.reasoning_content)
        return (
            self._continue_call(event.content_block_index, delta.tool_use) if delta.tool_use else ()
        )

    def _continue_call(self, index: int, piece: _Input) -> Sequence[ModelEvent]:
        if index not in self._blocks:
            message = "arguments came for a tool call that never began"
            raise MalformedAnswer(message)
        call_id = self._blocks[index]
        if call_id is None or not piece.input:
            return ()
        return (ToolCallDelta(id=call_id, args_delta=piece.input),)

    def _continue_thought(self, index: int, piece: _Reasoning) -> Sequence[ModelEvent]:
        if piece.redacted_content is not None:
            signature = REDACTED + piece.redacted_content
            return (ThinkingSignature(signature=signature, origin=ORIGIN),)
        if index not in self._thoughts:
            _check_room(self._thoughts)
            self._thoughts[index] = []
        if piece.signature:
            self._thoughts[index].append(piece.signature)
        return (ReasoningDelta(delta=piece.text),) if piece.text else ()

    def _end_block(self, event: _Event) -> Sequence[ModelEvent]:
        index = event.content_block_index
        if index in self._blocks:
            del self._blocks[index]
            return ()
        signed = self._thoughts.pop(index, None)
        if signed is None:
            return (BlockStop(),)
        return (ThinkingSignature(signature="".join(signed) or None, origin=ORIGIN),)

    def _note_stop(self, event: _Event) -> Sequence[ModelEvent]:
        reason = event.stop_reason
        self._stop = Stop(reason=_STOPS.get(reason, StopReason.END_TURN))
        if reason in _REFUSALS:
            # Raised at the end: the token counts follow the reason, and they are billed.
            self._failure = _REFUSALS[reason](f"the model stopped with '{reason}'")
        return ()

    def _end_answer(self, event: _Event) -> Sequence[ModelEvent]:
        if self._stop is None:
            message = "the end of the answer came before its stop reason"
            raise MalformedAnswer(message)
        self.is_over = True
        stop = () if self._failure is not None else (self._stop,)
        report = () if event.usage is None else (UsageReport(usage=_usage(event.usage)),)
        return (*report, *stop)


def _check_room(blocks: Sized) -> None:
    if len(blocks) >= _OPEN_BLOCKS:
        message = f"more than {_OPEN_BLOCKS} blocks are open at once"
        raise AnswerTooLarge(message)


def _usage(usage: _Usage) -> TokenUsage:
    """Convert the counts: cached tokens, which Bedrock counts apart, are part of the prompt."""
    read, written = usage.cache_read_input_tokens, usage.cache_write_input_tokens
    prompt = usage.input_tokens + (read or 0) + (written or 0)
    return TokenUsage(
        prompt_tokens=prompt,
        completion_tokens=usage.output_tokens,
        total_tokens=prompt + usage.output_tokens,
        cache_read_tokens=read,
        cache_creation_tokens=written,
    )
