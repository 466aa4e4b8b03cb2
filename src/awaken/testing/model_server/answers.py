"""What the server says before any vendor's format: the words of scripted models, in blocks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Literal

from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.models.inference import (
    BlockStop,
    CallSignature,
    ModelEvent,
    Stop,
    StopReason,
    ThinkingSignature,
    TokenUsage,
    UsageReport,
)
from awaken.testing.scripted_model import DEFAULT_USAGE, Answer, Failure, plan_of

Kind = Literal["text", "reasoning", "call"]


@dataclass(frozen=True, slots=True)
class Said:
    """An answer piece by piece, for what a `Turn` cannot say; `deltas` may be endless.

    `error` comes in the middle of the stream, in place of usage and stop.
    """

    deltas: Iterable[ModelEvent]
    usage: TokenUsage | None = DEFAULT_USAGE
    stop: StopReason = StopReason.END_TURN
    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request as it arrived."""

    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]
    """Their names in lower case."""
    body: dict[str, Any]
    raw: bytes
    """The body before it was parsed."""
    turns: tuple[tuple[str, str], ...] = ()
    """Role and text of every message, whatever the format."""


def continue_answer(text: str) -> Callable[[ModelRequest], str]:
    """Answer with the whole text, or with the rest of it if the request says how far it came.

    The request is taken for a continuation when its last message is the user's and the one
    before is the beginning of the text, said by the assistant.
    """

    def answer(request: ModelRequest) -> str:
        match request.turns:
            case (*_, ("assistant", said), ("user", _)) if said and text.startswith(said):
                return text[len(said) :]
        return text

    return answer


def split_answer(answer: Answer | Said, usage: TokenUsage | None = DEFAULT_USAGE) -> Said:
    """Return the answer piece by piece.

    Raises:
        ValueError: It has delays, which only a scripted model plays.
    """
    if isinstance(answer, Said):
        return answer
    plan = plan_of(answer, usage)
    if plan.delay_s or plan.gap_s:
        raise ValueError("the fake server knows no delay_ms; write Sent(answer, pause=...)")
    calls = (call.events(f"call_{number}") for number, call in enumerate(plan.calls, start=1))
    used = [event.usage for event in plan.closing if isinstance(event, UsageReport)]
    stops = [event.reason for event in plan.closing if isinstance(event, Stop)]
    return Said(
        deltas=(*plan.opening, *chain.from_iterable(calls)),
        usage=used[0] if used else None,
        stop=stops[0],
        error=plan.error,
    )


@dataclass(slots=True)
class AnswerBlock:
    """Consecutive deltas of one kind. Iterating gives their texts once and remembers them."""

    kind: Kind
    events: Iterator[ModelEvent]
    call_id: str = ""
    name: str = ""
    signature: str | None = None
    """Known once the texts were given."""
    pieces: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        for event in self.events:
            match event:
                case TextDelta(delta=piece) | ReasoningDelta(delta=piece):
                    pass
                case ToolCallDelta(args_delta=piece):
                    pass
                case ThinkingSignature(signature=signature) | CallSignature(signature=signature):
                    self.signature = signature
                    continue
                case _:
                    continue
            self.pieces.append(piece)
            yield piece

    @property
    def text(self) -> str:
        """What was given so far."""
        return "".join(self.pieces)


def blocks(deltas: Iterable[ModelEvent]) -> Iterator[AnswerBlock]:
    """Group deltas into the blocks that vendors stream; read each before the next."""
    for _, numbered in groupby(_number_blocks(deltas), key=itemgetter(0)):
        events = (event for _, event in numbered)
        first = next(events)
        match first:
            case ToolCallStart(id=call_id, name=name):
                yield AnswerBlock("call", events, call_id=call_id, name=name)
            case ReasoningDelta() | ThinkingSignature():
                yield AnswerBlock("reasoning", chain([first], events))
            case TextDelta():
                yield AnswerBlock("text", chain([first], events))


def _number_blocks(deltas: Iterable[ModelEvent]) -> Iterator[tuple[int, ModelEvent]]:
    number, before = 0, ""
    for event in deltas:
        match event:
            case TextDelta():
                block = "text"
            case ReasoningDelta() | ThinkingSignature():
                block = "reasoning"
            case ToolCallStart(id=call_id) | ToolCallDelta(id=call_id) | CallSignature(id=call_id):
                block = f"call {call_id}"
            case BlockStop():
                before = ""
                continue
            case _:
                raise ValueError(f"{event!r} is no delta; usage and stop are fields of Said.")
        number += block != before
        yield number, event
        before = "" if isinstance(event, ThinkingSignature) else block
