"""Models that can be asked again: what they say follows from the transcript they are shown.

A script that is played call by call loses its place when a process dies in the middle of a turn.
Here the place in the script is the number of its answers in the transcript.
"""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from awaken.contracts.errors import InvalidInput
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.models.inference import InferenceRequest, ModelClient, ModelEvent
from awaken.contracts.models.model_specs import ModelPool, ModelSpec
from awaken.contracts.models.stream_recovery import INTERRUPTED_PROMPT, text_to_continue

from .schema_samples import sample_of
from .scripted_model import (
    Answer,
    Entry,
    ScriptedCall,
    ScriptedModel,
    ScriptExhausted,
    ToolCalls,
    Turn,
)


class Questions:
    """What the models of one trial were asked, whichever process asked; it outlives them all."""

    def __init__(self) -> None:
        self._asked: dict[int, set[int]] = {}

    def of(self, model: ModelClient) -> set[int]:
        """The transcripts that a model was shown, as hashes."""
        return self._asked.setdefault(id(model), set())


def repeatable_model(
    agent_id: str, client: ModelClient, questions: Questions | None = None
) -> ModelClient:
    """Return a client that answers the same when it is asked the same.

    With `questions`, a script counts the answers of its own model only.

    Raises:
        InvalidInput: Nothing says that the client does so.
    """
    if isinstance(client, ScriptedModel):
        return TurnModel(client, questions.of(client) if questions is not None else None)
    if is_repeatable(client):
        return client
    problem = (
        f"its model '{client.name}' may answer differently each time, so nothing could be "
        "replayed; pass model=ScriptedModel([…]), or set is_deterministic = True on a client "
        "whose answers follow from the request alone"
    )
    raise InvalidInput(what=f"agent '{agent_id}'", problem=problem)


def is_repeatable(model: str | ModelSpec | ModelPool | ModelClient) -> bool:
    """Whether a model answers the same when it is asked the same, as far as anybody says so."""
    if isinstance(model, str):
        return model.partition(":")[0] == "scripted"
    if isinstance(model, ModelSpec):
        return model.provider_id == "scripted"
    if isinstance(model, ModelPool):
        return all(is_repeatable(member.model_id) for member in model.members)
    is_marked = getattr(model, "is_deterministic", False)
    return model.name == "scripted" or bool(is_marked)


class TurnModel:
    """Plays a script by the number of answers in the transcript, in every thread from its start.

    With `asked`, only answers to what this model was asked count: others may have spoken as well.
    Entries that fail belong to the turn after them: they fail once in every process, then that
    turn is played.
    """

    name = "scripted"
    is_deterministic = True

    def __init__(self, script: ScriptedModel, asked: set[int] | None = None) -> None:
        self._script = script
        self._turns = _turns(script.entries)
        self._asked = asked
        self._tries: dict[int, int] = {}

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Play the entry that is due, or what is left of it after a break."""
        heard, messages = "", request.messages
        if messages and messages[-1].text == INTERRUPTED_PROMPT:
            heard, messages = text_to_continue(messages) or "", messages[:-2]
        said = self._count_own_answers(messages)
        answer = await _build_answer(self._due(said), request)
        turn = sum(1 for message in messages if message.role is Role.ASSISTANT) + 1
        played = ScriptedModel([_name_calls(answer, turn)], usage=self._script.usage)
        async with aclosing(played.stream(request)) as events:
            async for event in events:
                if heard and isinstance(event, TextDelta):
                    known = _count_shared_chars(heard, event.delta)
                    heard, rest = heard[known:], event.delta[known:]
                    if rest:
                        yield TextDelta(delta=rest)
                else:
                    yield event

    def _due(self, said: int) -> Entry:
        turns = self._turns
        if not turns or (said >= len(turns) and not self._script.is_cycle):
            raise ScriptExhausted.after(len(turns))
        turn = turns[said % len(turns)]
        tries = self._tries.get(said, 0)
        self._tries[said] = tries + 1
        return turn[min(tries, len(turn) - 1)]

    def _count_own_answers(self, messages: Sequence[Message]) -> int:
        """How many of the answers are this model's."""
        said, shown = 0, 0
        for message in messages:
            if message.role is Role.ASSISTANT and (self._asked is None or shown in self._asked):
                said += 1
            shown = hash((shown, message.role, message.text, repr(message.tool_calls)))
        if self._asked is not None:
            self._asked.add(shown)
        return said


class ToolTourModel(TurnModel):
    """Calls every tool that it is offered once, with made-up arguments, and then says so."""

    def __init__(self) -> None:
        super().__init__(ScriptedModel([_call_every_tool, "I have used every tool once."]))


def _call_every_tool(request: InferenceRequest) -> Answer:
    calls = [(tool.id, sample_of(tool.parameters)) for tool in request.tools]
    return ToolCalls(calls) if calls else "I have no tools."


def _count_shared_chars(heard: str, said: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = zip(heard, said, strict=False)
    return next(
        (at for at, (one, other) in enumerate(pairs) if one != other), min(len(heard), len(said))
    )


def _turns(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Group entries by turn: those that fail, then the one that does not."""
    turns: list[list[Entry]] = []
    failures: list[Entry] = []
    for entry in entries:
        failures.append(entry)
        if not _fails(entry):
            turns.append(failures)
            failures = []
    return [*turns, failures] if failures else turns


def _fails(entry: Entry) -> bool:
    if isinstance(entry, Turn):
        return entry.error is not None
    is_class = isinstance(entry, type) and issubclass(entry, BaseException)
    return isinstance(entry, BaseException) or is_class


async def _build_answer(entry: Any, request: InferenceRequest) -> Answer:
    if not callable(entry) or isinstance(entry, type):
        answer: Answer = entry
        return answer
    made: Callable[[InferenceRequest], Answer | Awaitable[Answer]] = entry
    given = made(request)
    return await given if inspect.isawaitable(given) else given


def _name_calls(answer: Answer, turn: int) -> Answer:
    """Give calls without an id one that follows from their place."""
    match answer:
        case ToolCalls():
            return replace(answer, calls=_name_all(answer.calls, turn))
        case Turn(calls=ToolCalls() as batch):
            return replace(answer, calls=replace(batch, calls=_name_all(batch.calls, turn)))
        case Turn():
            assert not isinstance(answer.calls, ToolCalls)
            return replace(answer, calls=_name_all(answer.calls, turn))
    return answer


def _name_all(calls: Sequence[ScriptedCall], turn: int) -> list[ScriptedCall]:
    return [
        call if len(call) > 2 else (call[0], call[1], f"call_{turn}_{number}")
        for number, call in enumerate(calls, 1)
    ]
