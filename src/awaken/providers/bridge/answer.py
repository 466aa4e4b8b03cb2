"""The stream of pydantic-ai as model events. Pure: one object for one answer."""

from collections.abc import Iterator
from typing import Any

import msgspec
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    ModelResponsePartDelta,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.usage import RequestUsage

from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.models.errors import (
    AnswerTooLarge,
    ContentFiltered,
    ModelError,
    ProviderFailed,
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
    VendorAnswer,
)

ORIGIN = "bridge"
_ANSWER_CHARS = 128 * 1024 * 1024
_STOPS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "tool_call": StopReason.TOOL_USE,
}
_REFUSALS: dict[str, type[ModelError]] = {
    "content_filter": ContentFiltered,
    "error": ProviderFailed,
}


class AnswerReader:
    """Reads one answer; parts that an agent cannot use are skipped."""

    __slots__ = ("_calls", "_chars", "_has_called", "has_begun")

    def __init__(self) -> None:
        self.has_begun = False
        self._calls: dict[int, tuple[str, bool]] = {}
        self._has_called = False
        self._chars = 0

    def take(self, event: ModelResponseStreamEvent) -> Iterator[ModelEvent]:
        """Read one event of the library.

        Raises:
            AnswerTooLarge: The answer exceeds the limit.
        """
        self.has_begun = True
        match event:
            case PartStartEvent(index=index, part=part):
                yield from self._start_part(index, part)
            case PartDeltaEvent(index=index, delta=delta):
                yield from self._continue_part(index, delta)
            case PartEndEvent(index=index, part=part):
                yield from self._end_part(index, part)

    def end(self, answer: ModelResponse) -> Iterator[ModelEvent]:
        """Report usage and stop reason after the end of the stream.

        Raises:
            ModelError: The answer is incomplete, or the model refused.
        """
        if answer.usage.has_values():
            yield UsageReport(usage=_usage(answer.usage))
        if answer.state != "complete":
            message = "the stream ended in the middle of the answer"
            raise StreamInterrupted(message)
        reason = answer.finish_reason or ("tool_call" if self._has_called else "stop")
        if reason in _REFUSALS:
            message = f"the model stopped with '{reason}'"
            raise _REFUSALS[reason](message)
        yield Stop(reason=_STOPS[reason])
        if answer.provider_response_id:
            # Without an id the model name is only the requested one, not the vendor's.
            yield VendorAnswer(id=answer.provider_response_id, model=answer.model_name)

    def _start_part(self, index: int, part: ModelResponsePart) -> Iterator[ModelEvent]:
        match part:
            case TextPart(content=text) if text:
                yield TextDelta(delta=self._count_chars(text))
            case ThinkingPart(content=thought) if thought:
                yield ReasoningDelta(delta=self._count_chars(thought))
            case ToolCallPart(tool_name=name, tool_call_id=call_id, args=arguments):
                self._has_called = True
                self._calls[index] = (call_id, False)
                yield ToolCallStart(id=call_id, name=self._count_chars(name))
                yield from self._continue_call(index, arguments)

    def _continue_part(self, index: int, delta: ModelResponsePartDelta) -> Iterator[ModelEvent]:
        match delta:
            case TextPartDelta(content_delta=text) if text:
                yield TextDelta(delta=self._count_chars(text))
            case ThinkingPartDelta(content_delta=str(thought)) if thought:
                yield ReasoningDelta(delta=self._count_chars(thought))
            case ToolCallPartDelta(args_delta=arguments):
                yield from self._continue_call(index, arguments)

    def _continue_call(self, index: int, arguments: object) -> Iterator[ModelEvent]:
        """Pass on arguments as text; arguments as an object are sent when the part ends."""
        if isinstance(arguments, str) and arguments and index in self._calls:
            call_id, _ = self._calls[index]
            self._calls[index] = (call_id, True)
            yield ToolCallDelta(id=call_id, args_delta=self._count_chars(arguments))

    def _end_part(self, index: int, part: ModelResponsePart) -> Iterator[ModelEvent]:
        match part:
            case TextPart():
                yield BlockStop()
            case ThinkingPart():
                yield ThinkingSignature(signature=_signature(part), origin=ORIGIN)
            case ToolCallPart(args=arguments):
                call_id, was_sent = self._calls.pop(index, ("", True))
                if not was_sent and arguments:
                    text = self._count_chars(part.args_as_json_str())
                    yield ToolCallDelta(id=call_id, args_delta=text)

    def _count_chars(self, text: str) -> str:
        self._chars += len(text)
        if self._chars > _ANSWER_CHARS:
            message = f"the answer exceeds {_ANSWER_CHARS} characters"
            raise AnswerTooLarge(message)
        return text


class Signature(msgspec.Struct, omit_defaults=True):
    """The fields that the library needs back with reasoning, besides its text."""

    signature: str | None = None
    id: str | None = None
    provider_name: str | None = None
    provider_details: dict[str, Any] | None = None


def _signature(part: ThinkingPart) -> str | None:
    wanted = Signature(part.signature, part.id, part.provider_name, part.provider_details)
    return None if wanted == Signature() else msgspec.json.encode(wanted).decode()


def _usage(usage: RequestUsage) -> TokenUsage:
    return TokenUsage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens or None,
        cache_creation_tokens=usage.cache_write_tokens or None,
        thinking_tokens=usage.output_reasoning_tokens or None,
    )
