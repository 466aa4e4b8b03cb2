"""The stream of the Anthropic Messages format. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

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
    ThinkingSignature,
    UsageReport,
    VendorAnswer,
)
from awaken.providers.http.codec import read_vendor_answer
from awaken.providers.http.failures import failure_of_event

from .encode import ORIGIN, origin_of_redacted
from .usage import Usage, convert_usage, merge_usage

MAX_CALLS = 1024
"""The maximum number of tool calls in one answer, and of blocks that are open at once."""
_STOPS = {
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "tool_use": StopReason.TOOL_USE,
    "stop_sequence": StopReason.STOP_SEQUENCE,
}
_NO_INPUT = (b"", b"{}", b"null")


class _Message(msgspec.Struct, gc=False):
    id: Any = None
    model: Any = None
    usage: msgspec.Raw = msgspec.Raw()


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw()


class _Refusal(msgspec.Struct, gc=False):
    explanation: str | None = None


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    signature: str = ""
    stop_reason: str | None = None
    stop_details: _Refusal | None = None


class _Event(msgspec.Struct, gc=False):
    type: str
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw(b"{}")


_read = msgspec.json.Decoder(_Event).decode


class AnthropicDecoder:
    """Reads one answer; unknown kinds of events and blocks are skipped."""

    __slots__ = (
        "_calls",
        "_has_stopped",
        "_open",
        "_origin",
        "_refusal",
        "_signature",
        "_usage",
        "is_over",
        "vendor",
    )

    def __init__(self, origin: str = ORIGIN) -> None:
        self.is_over = False
        self.vendor: VendorAnswer | None = None
        self._origin = origin
        self._open: dict[int, _Block] = {}
        self._calls = 0
        self._signature: list[str] = []
        self._usage = Usage()
        self._has_stopped = False
        self._refusal: str | None = None

    def take(self, data: bytes) -> Sequence[ModelEvent]:
        """Read the data of one server-sent event.

        Raises:
            ModelError: The provider reports a failure, or this is not its protocol.
        """
        if self.is_over:
            return ()
        try:
            event = _read(data)
            delta = event.delta
            if delta is not None and delta.type == "text_delta":
                return (TextDelta(delta=delta.text),) if delta.text else ()
            read = self._readers.get(event.type)
            return () if read is None else read(self, event)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            message = f"an event of the stream cannot be read: {error}"
            raise MalformedAnswer(message) from error

    def end(self) -> Sequence[ModelEvent]:
        """Check that the answer was complete when the connection closed.

        Raises:
            ContentFiltered: The provider refused to answer.
            StreamInterrupted: The answer was not over.
        """
        if self._refusal is not None:
            raise ContentFiltered(self._refusal)
        if not self._has_stopped:
            message = "the stream ended before the answer was over"
            raise StreamInterrupted(message)
        return ()

    def _start(self, event: _Event) -> Sequence[ModelEvent]:
        if event.message is not None:
            self._usage = merge_usage(self._usage, event.message.usage)
            self.vendor = read_vendor_answer(event.message.id, event.message.model)
        return ()

    def _start_block(self, event: _Event) -> Sequence[ModelEvent]:
        block = event.content_block or _Block()
        self._calls += block.type == "tool_use"
        if self._calls > MAX_CALLS or len(self._open) >= MAX_CALLS:
            message = f"the answer has more than {MAX_CALLS} tool calls or open blocks"
            raise AnswerTooLarge(message)
        self._open[event.index] = block
        match block.type:
            case "text":
                return (TextDelta(delta=block.text),) if block.text else ()
            case "thinking":
                self._signature = [block.signature]
                return (ReasoningDelta(delta=block.thinking),) if block.thinking else ()
            case "tool_use":
                return (ToolCallStart(id=block.id, name=block.name),)
            case _:
                return ()

    def _continue_block(self, event: _Event) -> Sequence[ModelEvent]:
        delta, block = event.delta or _Delta(), self._open.get(event.index)
        match delta.type:
            case "thinking_delta":
                return (ReasoningDelta(delta=delta.thinking),)
            case "signature_delta":
                self._signature.append(delta.signature)
            case "input_json_delta" if block is not None and block.type == "tool_use":
                if delta.partial_json:
                    block.input = msgspec.Raw()
                    return (ToolCallDelta(id=block.id, args_delta=delta.partial_json),)
        return ()

    def _end_block(self, event: _Event) -> Sequence[ModelEvent]:
        block = self._open.pop(event.index, None) or _Block()
        match block.type:
            case "text":
                return (BlockStop(),)
            case "thinking":
                signature = "".join(self._signature)
                return (ThinkingSignature(signature=signature or None, origin=self._origin),)
            case "redacted_thinking":
                return (
                    ThinkingSignature(
                        signature=block.data, origin=origin_of_redacted(self._origin)
                    ),
                )
            case "tool_use" if bytes(block.input) not in _NO_INPUT:
                # Some servers of this format send the arguments whole, with the start.
                return (ToolCallDelta(id=block.id, args_delta=bytes(block.input).decode()),)
            case _:
                return ()

    def _change(self, event: _Event) -> Sequence[ModelEvent]:
        reason = event.delta.stop_reason if event.delta is not None else None
        self._usage = merge_usage(self._usage, event.usage)
        if reason is None or self._has_stopped:
            return ()
        if reason == "refusal":
            details = event.delta.stop_details if event.delta is not None else None
            reason_text = details.explanation if details is not None else None
            self._refusal = reason_text or "the model refused to answer"
        return self._report_stop(_STOPS.get(reason, StopReason.END_TURN))

    def _report_stop(self, reason: StopReason) -> Sequence[ModelEvent]:
        """Report usage and stop. Usage counts from the start of the answer, so it is sent once."""
        self._has_stopped = True
        return (UsageReport(usage=convert_usage(self._usage)), Stop(reason=reason))

    def _stop(self, _event: _Event) -> Sequence[ModelEvent]:
        self.is_over = True
        return () if self._has_stopped else self._report_stop(StopReason.END_TURN)

    def _fail(self, event: _Event) -> Sequence[ModelEvent]:
        raise failure_of_event(bytes(event.error))

    _readers: ClassVar[
        Mapping[str, Callable[["AnthropicDecoder", _Event], Sequence[ModelEvent]]]
    ] = {
        "message_start": _start,
        "content_block_start": _start_block,
        "content_block_delta": _continue_block,
        "content_block_stop": _end_block,
        "message_delta": _change,
        "message_stop": _stop,
        "error": _fail,
    }
