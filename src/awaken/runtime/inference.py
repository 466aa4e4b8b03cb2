"""One model turn: build the request, stream the answer, recover from a truncated one.

The provider is a port; what it streams is shown as it comes and collected at the same time.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, NoReturn

import msgspec

from awaken.contracts.content import ContentBlock, Text, Thinking, encodable
from awaken.contracts.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.events import (
    AgentEvent,
    InferenceComplete,
    ReasoningEncryptedValue,
    StreamReset,
    ToolCallCancel,
    ToolCallReady,
)
from awaken.contracts.inference import (
    BlockStop,
    InferenceRequest,
    ModelError,
    ModelEvent,
    ModelTimeout,
    ProviderFailed,
    Stop,
    StopReason,
    StreamResult,
    ThinkingSignature,
    TokenUsage,
    UsageReport,
)
from awaken.contracts.messages import ToolCall, Visibility, assistant, user

from .checkpoints import StreamCheckpoints
from .idle_timer import IdleTimer
from .request import build_request
from .run import Run

logger = logging.getLogger(__name__)

CONTINUE_PROMPT = (
    "Your previous answer was cut off because it reached the output limit. Continue exactly where "
    "it stopped, without repeating anything, and in smaller pieces if necessary."
)


async def infer(run: Run) -> StreamResult:
    """Ask the model, until its answer is whole or the continuation retries are used up.

    Parts of a truncated answer are joined into one; neither the parts nor the prompts between
    them enter the transcript.

    Raises:
        ModelError: The provider failed.
    """
    clock = run.services.clock
    began = clock.monotonic_ms()
    request = build_request(run)
    if run.is_streaming_again:
        run.emit(StreamReset(reason="the process that streamed the answer stopped"))
        run.is_streaming_again = False
    answer = run.streaming = Answer(run)
    if run.journal.lease is None:
        result = await _whole(run, answer, request)
    else:
        async with StreamCheckpoints(run):
            result = await _whole(run, answer, request)
    run.partial = ()
    run.streaming = None
    _log_answer(run, result)
    run.show(
        InferenceComplete(
            model=request.upstream_model,
            usage=answer.usage,
            duration_ms=clock.monotonic_ms() - began,
        )
    )
    return result


async def _whole(run: Run, answer: "Answer", request: InferenceRequest) -> StreamResult:
    result = await answer.stream(request)
    for _ in range(run.agent.spec.max_continuation_retries):
        if not result.needs_truncation_recovery:
            break
        result = await answer.stream(_continued(request, result))
    return result


def _continued(request: InferenceRequest, partial: StreamResult) -> InferenceRequest:
    messages = list(request.messages)
    if partial.text:
        messages.append(assistant(partial.text))
    messages.append(user(CONTINUE_PROMPT, visibility=Visibility.INTERNAL))
    return msgspec.structs.replace(request, messages=messages)


def _log_answer(run: Run, result: StreamResult) -> None:
    """Keep the turn for the log: its text as one delta per block, its calls as they were made."""
    journal = run.journal
    for event in block_events(result.content):
        journal.record(event)
    for call in result.tool_calls:
        journal.record(ToolCallStart(id=call.id, name=call.name))
    for call in result.tool_calls:
        run.show(ToolCallReady(id=call.id, name=call.name, arguments=call.arguments))


def block_events(content: tuple[ContentBlock, ...]) -> list[AgentEvent]:
    """A turn's content as one delta per block."""
    events: list[AgentEvent] = []
    for block in content:
        if type(block) is Text:
            events.append(TextDelta(delta=block.text))
        elif type(block) is Thinking:
            if block.thinking:
                events.append(ReasoningDelta(delta=block.thinking))
            if block.signature is not None:
                events.append(ReasoningEncryptedValue(encrypted_value=block.signature))
    return events


class Answer:
    """Collects a model's answer, over several streams if it has to be continued."""

    __slots__ = ("_blocks", "_calls", "_refused", "_run", "_stop", "_text", "_thinking", "usage")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._blocks: list[ContentBlock] = []
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: dict[str, tuple[str, list[str]]] = {}
        self._refused: dict[str, str] = {}
        """Call ids that no further call may use, and why."""
        self._stop: StopReason | None = None
        self.usage: TokenUsage | None = None

    async def stream(self, request: InferenceRequest) -> StreamResult:
        """Stream one request to its end and return the whole answer so far.

        Raises:
            ModelError: The provider failed; `run.partial` has what it said before.
        """
        self.give_up_calls("cut off; the model is asked again")
        self._stop = None
        timer = IdleTimer(self._run.alarm, self._run.services.limits.model_idle_ms)
        try:
            with timer:
                await self._consume(request, timer)
        except ModelError:
            raise
        except TimeoutError as error:
            raise ModelTimeout("the model sent nothing for too long") from error
        except Exception as error:
            logger.exception("Provider '%s' raised.", self._run.agent.client.name)
            raise ProviderFailed(f"{type(error).__name__}: {error}") from error
        finally:
            self._run.partial = self._content()
        return self._result()

    def seen(self) -> list[AgentEvent]:
        """What was streamed so far, one event per block."""
        events = block_events(self._content())
        for call_id, (name, parts) in self._calls.items():
            events.append(ToolCallStart(id=call_id, name=name))
            events.append(ToolCallDelta(id=call_id, args_delta="".join(parts)))
        return events

    def said(self) -> tuple[ContentBlock, ...]:
        """What was said so far."""
        return self._content()

    async def _consume(self, request: InferenceRequest, timer: IdleTimer) -> None:
        feed, run, text = self._run.feed, self._run, self._text
        async with aclosing(self._opened(request)) as events:
            async for event in events:
                timer.is_fresh = True
                if type(event) is TextDelta:
                    if self._thinking:
                        self._close_block()
                    text.append(event.delta)
                    if feed.readers:
                        run.emit(event)
                else:
                    self._take(event)
                if feed.is_full:
                    timer.pause()
                    await feed.drain()
                    timer.resume()

    def _opened(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        client = self._run.agent.client
        events = client.stream(request)
        if not hasattr(events, "aclose"):
            kind = type(events).__name__
            message = f"stream() of provider '{client.name}' gave a {kind}, not an async generator"
            raise ProviderFailed(message)
        return events

    def _take(self, event: ModelEvent) -> None:
        run = self._run
        match event:
            case ReasoningDelta():
                if self._text:
                    self._close_block()
                self._thinking.append(event.delta)
                run.emit(event)
            case ToolCallStart():
                self._open_call(event)
            case ToolCallDelta():
                if event.id in self._calls and event.id not in self._refused:
                    self._calls[event.id][1].append(event.args_delta)
                    run.emit(event)
            case BlockStop():
                self._close_block()
            case ThinkingSignature(signature=signature):
                self._sign(signature)
            case UsageReport(usage=usage):
                self.usage = usage if self.usage is None else self.usage.plus(usage)
                run.usage = run.usage.plus(usage)
            case Stop(reason=reason):
                self._stop = reason
            case _:
                self._refuse(event)

    def _refuse(self, event: object) -> NoReturn:
        name, kind = self._run.agent.client.name, type(event).__name__
        message = f"provider '{name}' yielded a {kind}; yield TextDelta, ToolCallStart, …, Stop"
        raise ProviderFailed(message)

    def _open_call(self, event: ToolCallStart) -> None:
        if event.id in self._calls:
            # Only the first call of an id counts: two results for one id would be invalid.
            self._refused[event.id] = f"call id '{event.id}' was used twice"
        elif not (event.id and event.name):
            self._refused[event.id] = "a call has no id or no name"
        else:
            self._calls[event.id] = (event.name, [])
            self._run.emit(event)

    def _sign(self, signature: str) -> None:
        if self._text:
            self._close_block()
        self._close_block(signature)
        self._run.emit(ReasoningEncryptedValue(encrypted_value=signature))

    def give_up_calls(self, reason: str) -> None:
        """Forget the calls of the stream before; whoever saw them begin learns that they ended."""
        for call_id, (name, _) in self._calls.items():
            self._run.emit(ToolCallCancel(id=call_id, name=name, reason=reason))
        self._calls.clear()
        self._refused.clear()

    def _close_block(self, signature: str | None = None) -> None:
        self._blocks = list(self._content(signature))
        self._text.clear()
        self._thinking.clear()

    def _content(self, signature: str | None = None) -> tuple[ContentBlock, ...]:
        blocks, thought, text = self._blocks, "".join(self._thinking), "".join(self._text)
        if thought or signature is not None:
            return (*blocks, Thinking(thinking=encodable(thought), signature=signature))
        return (*blocks, Text(text=encodable(text))) if text else tuple(blocks)

    def _result(self) -> StreamResult:
        calls: list[ToolCall] = []
        dropped = list(self._refused.values())
        is_incomplete = False
        for call_id, (name, parts) in list(self._calls.items()):
            try:
                calls.append(ToolCall(id=call_id, name=name, arguments=_arguments(parts)))
            except _MALFORMED:
                is_incomplete = True
                problem = f"the arguments of '{name}' are not valid JSON"
                dropped.append(problem)
                del self._calls[call_id]
                self._run.emit(ToolCallCancel(id=call_id, name=name, reason=problem))
        return StreamResult(
            content=self._content(),
            tool_calls=tuple(calls),
            usage=self.usage,
            stop_reason=self._stop,
            has_incomplete_tool_calls=is_incomplete,
            dropped_calls=tuple(dropped),
        )


_MALFORMED = (msgspec.DecodeError, RecursionError)


def _arguments(parts: list[str]) -> Any:
    text = "".join(parts)
    return msgspec.json.decode(encodable(text)) if text else {}
