"""Models that answer from a recording or from a script; nothing leaves the process."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from awaken.contracts.evals.errors import RecordedFailure, RecordingEnded, ReplayDiverged
from awaken.contracts.evals.recordings import RecordedStep, Recording
from awaken.contracts.evals.worlds import ScriptedTurn
from awaken.contracts.lifecycle import Cancelled, Failed
from awaken.contracts.messages.content import Text, Thinking
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import Message, ToolCall
from awaken.contracts.models import errors as model_errors
from awaken.contracts.models.errors import ContextOverflow, ModelError
from awaken.contracts.models.inference import (
    BlockStop,
    CallSignature,
    InferenceRequest,
    ModelClient,
    ModelEvent,
    Stop,
    StopReason,
    ThinkingSignature,
    UsageReport,
)
from awaken.runtime.run import Run

from .side_questions import refuse_side_question


class AskedRun(Protocol):
    """The run whose model is asked, as far as an answer depends on it."""

    @property
    def run(self) -> Run:
        """The run itself."""
        ...

    @property
    def step(self) -> int:
        """The number of the step that asks, 1-based."""
        ...

    def begin_step(self, step: int, request: InferenceRequest) -> None:
        """Let what reached the recorded run after this step reach the run.

        Raises:
            ReplayDiverged: The request is not the recorded one.
        """
        ...

    def find_summary(self, request: InferenceRequest) -> str | None:
        """Return the recorded summary, if a summary of the history is asked for; blank: none."""
        ...

    def has_more_left_out(self) -> bool:
        """Whether the recorded request of this step had less of the history than this one."""
        ...

    def cancel(self, cause: str) -> None:
        """Cancel the run."""
        ...


class RecordedModel:
    """Answers each request with the recorded answer of its step."""

    def __init__(
        self, name: str, recording: Recording, run: AskedRun, after: ModelClient | None, until: int
    ) -> None:
        self.name = name
        self._steps = {it.n: it for it in recording.steps}
        self._recording = recording
        self._run = run
        self._after = after
        self._until = until

    @property
    def is_virtual(self) -> bool:
        """Whether pauses between calls take no time: the step is answered from the recording."""
        return self._after is None or self._run.step < self._until

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Play the recorded answer; from the step `until` on, ask the model `after`.

        Raises:
            ReplayDiverged: The recording has no such step, or it is no step that asks.
            RecordingEnded: The recorded run had not gone further.
            RecordedFailure: The recorded run failed here.
            ContextOverflow: The provider had found this request too long.
        """
        number = self._run.step
        if (summary := self._run.find_summary(request)) is not None:
            yield TextDelta(delta=summary)
            yield Stop(reason=StopReason.END_TURN)
            return
        is_live = self._after is not None and number >= self._until
        if not is_live:
            refuse_side_question(self._run.run)
        if not is_live and self._run.has_more_left_out():
            raise ContextOverflow("the provider found the recorded request too long")
        self._run.begin_step(number, request)
        if self._after is not None and number >= self._until:
            async for event in self._after.stream(request):
                yield event
            return
        step = self._steps.get(number)
        if step is None or step.answer is None:
            await self._end(number, has_begun=step is not None)
            return
        if step.is_cut:
            for event in play_content(step.answer):
                yield event
            await self._end(number, has_begun=True)
            return
        for event in play_answer(step):
            yield event
        ended = self._recording.run.termination
        if isinstance(ended, Cancelled) and number == max(self._steps) and not step.calls:
            # It was cancelled behind its last answer, before that had ended it.
            self._run.cancel(ended.cause)

    async def _end(self, number: int, *, has_begun: bool) -> None:
        """End the run as the recorded run ended before this answer."""
        run = self._recording.run
        is_last = number > max(self._steps, default=0) - has_begun
        match run.termination:
            case Cancelled(cause=cause) if is_last:
                self._run.cancel(cause)
                await asyncio.Event().wait()
            case Failed(message=message, code=code) if is_last and has_begun:
                failure = RecordedFailure(message)
                failure.code = code or failure.code  # type: ignore[misc]
                raise failure
        if run.is_open and is_last:
            raise RecordingEnded("the recorded run had not ended", step=number)
        raise ReplayDiverged("the recorded run asked no more", step=number, kind="end")


def play_answer(step: RecordedStep) -> Iterator[ModelEvent]:
    """Yield the events of a recorded answer."""
    answer = step.answer
    assert answer is not None
    yield from play_content(answer)
    calls = answer.tool_calls or ()
    yield from play_calls(calls)
    if step.usage is not None:
        yield UsageReport(usage=step.usage)
    yield Stop(reason=StopReason.TOOL_USE if calls else StopReason.END_TURN)


def play_content(answer: Message) -> Iterator[ModelEvent]:
    """Yield the text and the reasoning of an answer, block by block."""
    for block in answer.content or ():
        if isinstance(block, Text):
            yield TextDelta(delta=block.text)
            yield BlockStop()
        elif isinstance(block, Thinking):
            yield ReasoningDelta(delta=block.thinking)
            yield ThinkingSignature(signature=block.signature, origin=block.origin)


def play_calls(calls: Iterable[ToolCall]) -> Iterator[ModelEvent]:
    """Yield the calls of an answer."""
    for call in calls:
        yield ToolCallStart(id=call.id, name=call.name)
        text = msgspec.json.encode(call.arguments).decode()
        yield ToolCallDelta(id=call.id, args_delta=text)
        if call.signature is not None:
            yield CallSignature(id=call.id, signature=call.signature)


class ScriptedAnswers:
    """Answers each request with the next turn of a script; the place follows from the run."""

    is_virtual = True
    """Pauses between calls take no time."""

    def __init__(self, name: str, script: Sequence[ScriptedTurn], run: AskedRun) -> None:
        self.name = name
        self._script = script
        self._run = run
        self._failed: dict[int, int] = {}
        """How many errors of the script each step has met here: a repeated call is in one step."""

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Play the turn of this step.

        Raises:
            ModelError: The turn is an error, the script has no more turns, or no step asks.
        """
        refuse_side_question(self._run.run)
        number = self._run.step
        self._run.begin_step(number, request)
        turn = self._find_turn(number)
        if turn is None:
            message = f"the script has {len(self._script)} turns"
            raise ReplayDiverged(message, step=number, kind="answer")
        for event in play_turn(turn, number):
            yield event
        if turn.error is not None:
            self._failed[number] = self._failed.get(number, 0) + 1
            raise build_error(turn)

    def _find_turn(self, number: int) -> ScriptedTurn | None:
        """Return the turn of a step: each answer before it, and each error, uses one turn."""
        answers, place = 0, 0
        for place, turn in enumerate(self._script):
            if turn.error is None:
                answers += 1
            elif answers + 1 == number and self._count_errors(place) >= self._failed.get(number, 0):
                return turn
            if answers == number:
                return turn
        return None

    def _count_errors(self, place: int) -> int:
        """Return how many errors directly precede a place."""
        count = 0
        while place > count and self._script[place - 1 - count].error is not None:
            count += 1
        return count


def play_turn(turn: ScriptedTurn, step: int) -> Iterator[ModelEvent]:
    """Yield the events of a scripted turn; calls without an id get one of their place."""
    if turn.reasoning:
        yield ReasoningDelta(delta=turn.reasoning)
        yield BlockStop()
    if turn.text and turn.error is None:
        yield TextDelta(delta=turn.text)
    calls = (
        ToolCall(id=it.id or f"call_{step}_{place}", name=it.name, arguments=it.arguments)
        for place, it in enumerate(turn.calls, 1)
    )
    yield from play_calls(calls)
    if turn.error is None:
        if turn.usage is not None:
            yield UsageReport(usage=turn.usage)
        reason = StopReason.TOOL_USE if turn.calls else StopReason.END_TURN
        yield Stop(reason=StopReason(turn.stop) if turn.stop else reason)


def build_error(turn: ScriptedTurn) -> ModelError:
    """Return the error of a scripted turn: the class with that code, else a plain failure."""
    text = turn.text or f"scripted {turn.error}"
    for kind in vars(model_errors).values():
        is_error = isinstance(kind, type) and issubclass(kind, ModelError)
        if is_error and kind.code == turn.error:
            try:
                return kind(text, retry_after_ms=turn.retry_after_ms)  # type: ignore[no-any-return]
            except TypeError:
                break
    failure = RecordedFailure(text)
    failure.code = turn.error or failure.code  # type: ignore[misc]
    return failure
