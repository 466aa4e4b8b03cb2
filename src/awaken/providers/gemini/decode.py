"""The stream of the Gemini format. Pure."""

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.models.errors import (
    AnswerTooLarge,
    ContentFiltered,
    MalformedAnswer,
    ModelError,
    ProviderFailed,
    StreamInterrupted,
)
from awaken.contracts.models.inference import (
    BlockStop,
    CallSignature,
    ModelEvent,
    Stop,
    StopReason,
    ThinkingSignature,
    TokenUsage,
    UsageReport,
    VendorAnswer,
)
from awaken.providers.http.codec import read_vendor_answer
from awaken.providers.http.counts import Count, has_value, make_usage_reader
from awaken.providers.http.failures import failure_of_event

from .encode import ORIGIN

MAX_CALLS = 1024
"""The maximum number of tool calls in one answer."""
_FAILURES: dict[str, type[ModelError]] = {
    "SAFETY": ContentFiltered,
    "RECITATION": ContentFiltered,
    "BLOCKLIST": ContentFiltered,
    "PROHIBITED_CONTENT": ContentFiltered,
    "SPII": ContentFiltered,
    "IMAGE_SAFETY": ContentFiltered,
    "IMAGE_PROHIBITED_CONTENT": ContentFiltered,
    "IMAGE_RECITATION": ContentFiltered,
    "MALFORMED_FUNCTION_CALL": MalformedAnswer,
    "UNEXPECTED_TOOL_CALL": MalformedAnswer,
    "MALFORMED_RESPONSE": MalformedAnswer,
    "TOO_MANY_TOOL_CALLS": MalformedAnswer,
    "LANGUAGE": ContentFiltered,
    "OTHER": ProviderFailed,
    "IMAGE_OTHER": ProviderFailed,
}
_ID_CHARS = 64


class _Call(msgspec.Struct, gc=False):
    id: str | None = None
    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Part(msgspec.Struct, rename="camel", gc=False):
    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: _Call | None = None


class _Content(msgspec.Struct, gc=False):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel", gc=False):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Feedback(msgspec.Struct, rename="camel", gc=False):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Usage(msgspec.Struct, rename="camel", gc=False):
    prompt_token_count: Count | None = None
    tool_use_prompt_token_count: Count | None = None
    candidates_token_count: Count | None = None
    thoughts_token_count: Count | None = None
    cached_content_token_count: Count | None = None


class _Chunk(msgspec.Struct, rename="camel", gc=False):
    candidates: list[_Candidate] | None = None
    usage_metadata: msgspec.Raw = msgspec.Raw()
    prompt_feedback: _Feedback | None = None
    response_id: str | None = None
    model_version: Any = None
    error: Any = None


_read = msgspec.json.Decoder(_Chunk).decode
_read_usage = make_usage_reader(_Usage)


class GeminiDecoder:
    """Reads one answer. It ends with the stream: some models send a finish in every chunk."""

    __slots__ = ("_calls", "_failure", "_finish", "_origin", "_usage", "is_over", "vendor")

    def __init__(self, origin: str = ORIGIN) -> None:
        self.is_over = False
        self.vendor: VendorAnswer | None = None
        self._origin = origin
        self._calls = 0
        self._usage = msgspec.Raw()
        self._finish: str | None = None
        self._failure: ModelError | None = None

    def take(self, data: bytes) -> Sequence[ModelEvent]:
        """Read the data of one server-sent event.

        Raises:
            ModelError: The provider reports a failure, or this is not its protocol.
        """
        if self._failure is not None:
            return ()
        try:
            chunk = _read(data)
            if has_value(chunk.usage_metadata):
                self._usage = chunk.usage_metadata
            if not chunk.candidates:
                return self._note(chunk, data)
            self.vendor = self.vendor or read_vendor_answer(chunk.response_id, chunk.model_version)
            candidate = chunk.candidates[0]
            if candidate.finish_reason is not None:
                self._note_finish(candidate)
            if self._failure is not None:
                return self._report_usage()
            parts = candidate.content.parts if candidate.content is not None else None
            return self._events(parts, chunk, data) if parts else ()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            message = f"an event of the stream cannot be read: {error}"
            raise MalformedAnswer(message) from error

    def end(self) -> Sequence[ModelEvent]:
        """Return usage and stop reason after the connection was closed.

        Raises:
            ContentFiltered: The provider refused the question or withheld the answer.
            MalformedAnswer: The model wrote an invalid call.
            StreamInterrupted: The answer was not over.
        """
        self.is_over = True
        if self._failure is not None:
            raise self._failure
        if self._finish is None:
            message = "the stream ended before the answer was over"
            raise StreamInterrupted(message)
        return (*self._report_usage(), Stop(reason=self._stop_reason(self._finish)))

    def _stop_reason(self, finish: str) -> StopReason:
        if finish == "MAX_TOKENS":
            return StopReason.MAX_TOKENS
        return StopReason.TOOL_USE if self._calls else StopReason.END_TURN

    def _note(self, chunk: _Chunk, data: bytes) -> Sequence[ModelEvent]:
        feedback = chunk.prompt_feedback
        if chunk.error is not None:
            raise failure_of_event(data)
        if feedback is not None and feedback.block_reason is not None:
            message = (
                feedback.block_reason_message or f"the prompt was blocked: {feedback.block_reason}"
            )
            self._failure = ContentFiltered(message)
            return self._report_usage()
        return ()

    def _report_usage(self) -> Sequence[ModelEvent]:
        """Report the usage. Every chunk counts from the start, so only the last one is reported."""
        usage = _read_usage(self._usage)
        return () if usage is None else (UsageReport(usage=_convert_usage(usage)),)

    def _note_finish(self, candidate: _Candidate) -> None:
        self._finish = candidate.finish_reason
        made = _FAILURES.get(candidate.finish_reason or "")
        if made is not None:
            text = candidate.finish_message or f"the model stopped with {candidate.finish_reason}"
            self._failure = made(text)

    def _events(self, parts: list[_Part], chunk: _Chunk, data: bytes) -> Sequence[ModelEvent]:
        events: list[ModelEvent] = []
        for part in parts:
            if part.function_call is not None:
                events += self._call(part, part.function_call, chunk, data)
                continue
            if part.text:
                kind = ReasoningDelta if part.thought else TextDelta
                events.append(kind(delta=part.text))
            if part.thought_signature is not None:
                if not part.thought:
                    # It belongs to the text, not to the reasoning before it.
                    events.append(BlockStop())
                signature = part.thought_signature
                events.append(ThinkingSignature(signature=signature, origin=self._origin))
        return events

    def _call(self, part: _Part, call: _Call, chunk: _Chunk, data: bytes) -> Sequence[ModelEvent]:
        self._calls += 1
        if self._calls > MAX_CALLS:
            message = f"the answer has more than {MAX_CALLS} tool calls"
            raise AnswerTooLarge(message)
        call_id = call.id or self._make_id(chunk, data)
        arguments = bytes(call.args).decode()
        begun = ToolCallStart(id=call_id, name=call.name)
        args_delta = "{}" if arguments == "null" else arguments
        delta = ToolCallDelta(id=call_id, args_delta=args_delta)
        if part.thought_signature is None:
            return (begun, delta)
        return (begun, delta, CallSignature(id=call_id, signature=part.thought_signature))

    def _make_id(self, chunk: _Chunk, data: bytes) -> str:
        """Make an id for a call without one, unique in this answer and among other answers."""
        answer = (chunk.response_id or f"{zlib.crc32(data):08x}")[:_ID_CHARS]
        return f"call_{answer}_{self._calls}"


def _convert_usage(usage: _Usage) -> TokenUsage:
    """Convert the counts: all input tokens are the prompt, reasoning is completion."""
    prompt = _sum(usage.prompt_token_count, usage.tool_use_prompt_token_count)
    completion = _sum(usage.candidates_token_count, usage.thoughts_token_count)
    return TokenUsage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=_sum(prompt, completion),
        cache_read_tokens=usage.cached_content_token_count,
        thinking_tokens=usage.thoughts_token_count,
    )


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None and right is None else (left or 0) + (right or 0)
