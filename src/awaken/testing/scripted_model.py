"""A model that says what a test tells it to say, call by call.

It knows the model port only: no runtime, no clock, no network. Everything that can be built
before a call is built when the script is given, so that a delta costs one `yield`.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.models.errors import ModelError
from awaken.contracts.models.inference import (
    InferenceRequest,
    ModelEvent,
    Stop,
    StopReason,
    ThinkingSignature,
    TokenUsage,
    UsageReport,
)

DEFAULT_USAGE = TokenUsage(prompt_tokens=10, completion_tokens=20, total_tokens=30)

Failure = BaseException | type[BaseException]
ScriptedCall = tuple[str, Any] | tuple[str, Any, str]
"""Name, arguments and optionally an id; arguments of type `str` are streamed as they stand."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Text in several deltas, with `delay_ms` between two of them."""

    texts: Sequence[str]
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning in one delta, then its signature if it has one."""

    text: str
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """A batch of calls after an optional text; arguments come in up to `split` pieces."""

    calls: Sequence[ScriptedCall]
    text: str = ""
    split: int = 1

    def __post_init__(self) -> None:
        _check_calls(self.calls)


@dataclass(frozen=True, slots=True)
class Turn:
    """A whole model turn: reasoning, then text, then calls, then usage and stop.

    `delay_ms` passes before the first delta. `error` is raised after the deltas, in place of
    usage and stop.
    """

    text: str | Sequence[str] | Chunks = ""
    reasoning: str | Reasoning | None = None
    calls: Sequence[ScriptedCall] | ToolCalls = ()
    usage: TokenUsage | None = None
    stop: StopReason | None = None
    delay_ms: int = 0
    error: Failure | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.calls, ToolCalls):
            _check_calls(self.calls)
        if self.error is not None:
            _check_failure(self.error)


Answer = str | Chunks | Reasoning | ToolCalls | Turn | Failure
Entry = Answer | Callable[[InferenceRequest], Answer | Awaitable[Answer]]


class ScriptExhausted(ModelError):
    """The model was asked more often than its script has entries; `used` says how many."""

    code = "script_exhausted"
    used: int = 0

    @classmethod
    def after(cls, used: int) -> Self:
        """The error of a script whose entries were all used."""
        message = (
            f"The script is exhausted: {used} of {used} entries were used and the model was "
            "asked again; add an entry or pass cycle=True."
        )
        return cls(message, used=used)


class ScriptedModel:
    """Answers its n-th call with its n-th entry, for every caller.

    Failures are raised from the stream, never from `stream` itself. Call ids that an entry does
    not give are "call_1", "call_2", … in the order in which they are streamed. A stream holds
    nothing, so closing or cancelling it anywhere is safe.
    """

    name = "scripted"

    def __init__(
        self,
        entries: Iterable[Entry],
        *,
        usage: TokenUsage | None = DEFAULT_USAGE,
        cycle: bool = False,
    ) -> None:
        if isinstance(entries, str):
            raise TypeError("entries is a list of entries, not one text; write [text].")
        self.requests: list[InferenceRequest] = []
        """Every request so far, each with its own copy of the list of messages."""
        self.open_streams = 0
        """Streams that began and neither ended nor were closed."""
        self.entries = tuple(entries)
        """The script as it was given."""
        self.usage = usage
        self.is_cycle = cycle
        self._plans = [_plan_or_callable(entry, usage) for entry in self.entries]
        self._used = 0
        self._call_count = 0

    @property
    def entries_left(self) -> int:
        """How many entries were not used yet."""
        return max(0, len(self._plans) - self._used)

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Play the next entry."""
        self.requests.append(msgspec.structs.replace(request, messages=list(request.messages)))
        self.open_streams += 1
        try:
            plan = await self._next_plan(request)
            if plan.delay_s:
                await asyncio.sleep(plan.delay_s)
            for event in plan.opening:
                yield event
            for event in plan.paced:
                await asyncio.sleep(plan.gap_s)
                yield event
            for call in plan.calls:
                for event in self._call_events(call):
                    yield event
            if plan.error is not None:
                raise _instance(plan.error)
            for event in plan.closing:
                yield event
        finally:
            self.open_streams -= 1

    async def _next_plan(self, request: InferenceRequest) -> "Plan":
        plans, used, count = self._plans, self._used, len(self._plans)
        if not plans or (used >= count and not self.is_cycle):
            raise ScriptExhausted.after(used)
        self._used = used + 1
        plan = plans[used % count]
        if isinstance(plan, Plan):
            return plan
        answer = plan(request)
        if inspect.isawaitable(answer):
            answer = await answer
        return plan_of(answer, self.usage)

    def _call_events(self, call: "PlannedCall") -> list[ModelEvent]:
        if call.call_id is None:
            self._call_count += 1
        return call.events(f"call_{self._call_count}")


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call whose arguments are text, in the pieces in which they are streamed."""

    name: str
    pieces: tuple[str, ...]
    call_id: str | None

    def events(self, next_id: str) -> list[ModelEvent]:
        """The call as it is streamed, under `next_id` unless it has an id of its own."""
        call_id = next_id if self.call_id is None else self.call_id
        events: list[ModelEvent] = [ToolCallStart(id=call_id, name=self.name)]
        events += [ToolCallDelta(id=call_id, args_delta=piece) for piece in self.pieces]
        return events


@dataclass(frozen=True, slots=True)
class Plan:
    """A turn as the stream plays it: `paced` are the deltas that wait for `gap_s` first."""

    delay_s: float = 0
    opening: tuple[ModelEvent, ...] = ()
    paced: tuple[ModelEvent, ...] = ()
    gap_s: float = 0
    calls: tuple[PlannedCall, ...] = ()
    error: Failure | None = None
    closing: tuple[ModelEvent, ...] = ()


def _plan_or_callable(
    entry: Entry, usage: TokenUsage | None
) -> Plan | Callable[[InferenceRequest], Answer | Awaitable[Answer]]:
    if callable(entry) and not isinstance(entry, type):
        return entry
    return plan_of(entry, usage)


def plan_of(answer: Answer, usage: TokenUsage | None) -> Plan:
    """Return what a stream of this answer plays; `usage` is used where it names none."""
    turn = _turn(answer)
    batch = turn.calls if isinstance(turn.calls, ToolCalls) else ToolCalls(turn.calls)
    text, gap_ms = _texts(turn.text or batch.text)
    shown = (*_stream_reasoning(turn.reasoning), *(TextDelta(delta=piece) for piece in text))
    first = len(shown) - len(text) + 1 if gap_ms else len(shown)
    used = turn.usage or usage
    reason = turn.stop or (StopReason.TOOL_USE if batch.calls else StopReason.END_TURN)
    return Plan(
        delay_s=turn.delay_ms / 1000,
        opening=shown[:first],
        paced=shown[first:],
        gap_s=gap_ms / 1000,
        calls=tuple(_call(call, batch.split) for call in batch.calls),
        error=turn.error,
        closing=(*([UsageReport(usage=used)] if used else ()), Stop(reason=reason)),
    )


def _turn(answer: Answer) -> Turn:
    match answer:
        case Turn():
            return answer
        case str() | Chunks():
            return Turn(answer)
        case ToolCalls():
            return Turn(calls=answer)
        case Reasoning():
            return Turn(reasoning=answer)
        case BaseException() | type():
            return Turn(error=answer)
        case tuple() | list():
            kind = type(answer).__name__
            raise TypeError(
                f"A {kind} is not an entry of a script; wrap calls in ToolCalls([...])."
            )
    raise TypeError(f"{type(answer).__name__} is not an entry of a script.")


def _check_calls(calls: object) -> None:
    # Scripts are written by hand: what the types forbid arrives all the same.
    given = calls if isinstance(calls, Sequence) and not isinstance(calls, str) else [calls]
    for call in given:
        match call:
            case (str(), _) | (str(), _, str() | None):
                continue
        raise TypeError(
            f"{call!r} is no call: a call is (name, arguments) or (name, arguments, id)."
        )


def _check_failure(failure: object) -> None:
    kind = failure if isinstance(failure, type) else type(failure)
    if not issubclass(kind, BaseException):
        raise TypeError(f"{kind.__name__} is no exception, so a script cannot raise it.")


def _texts(text: str | Sequence[str] | Chunks) -> tuple[tuple[str, ...], int]:
    match text:
        case str():
            return ((text,) if text else ()), 0
        case Chunks():
            return tuple(text.texts), text.delay_ms
    return tuple(text), 0


def _stream_reasoning(reasoning: str | Reasoning | None) -> tuple[ModelEvent, ...]:
    if reasoning is None:
        return ()
    if isinstance(reasoning, str):
        reasoning = Reasoning(reasoning)
    delta = ReasoningDelta(delta=reasoning.text)
    if reasoning.signature is None:
        return (delta,)
    return (delta, ThinkingSignature(signature=reasoning.signature))


def _call(call: ScriptedCall, split: int) -> PlannedCall:
    name, arguments, *given = call
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    size = max(1, -(-len(text) // max(1, split)))
    pieces = tuple(text[start : start + size] for start in range(0, len(text), size))
    return PlannedCall(name=name, pieces=pieces, call_id=given[0] if given else None)


def _instance(failure: Failure) -> BaseException:
    if isinstance(failure, type):
        return failure(f"Scripted {failure.__name__}.")
    # The same object may be raised again by a cycle; it must not drag old tracebacks along.
    return failure.with_traceback(None)
