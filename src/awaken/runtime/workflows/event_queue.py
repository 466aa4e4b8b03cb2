"""Events that were sent to a workflow: messages of its thread, kept in order until they are taken.

An event is a message, so it is durable, delivered once and shown like any other. A chat message
is the event `message`.
"""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from awaken.authoring.json_schemas import JsonSchema
from awaken.contracts.messages.message import (
    Message,
    Role,
    Sender,
    SenderKind,
    Transcript,
    as_blocks,
)
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.store import ToolRecord
from awaken.contracts.suspension.tickets import (
    Asks,
    DecisionAction,
    ResumeMode,
    SuspendTicket,
    Suspension,
)
from awaken.contracts.workflows.steps import MESSAGE_EVENT, StepKind
from awaken.runtime.run import Run

from .step_journal import is_below


class WaitingEvent(msgspec.Struct, frozen=True):
    """An event that no step has taken yet."""

    message_id: str
    name: str
    payload: Any
    place: int = 0
    """Its place among the messages that it was read from: the order in which events came."""


class EventQueue:
    """The events of a run that no step has taken, in the order of the transcript."""

    def __init__(self, run: Run, steps: Mapping[str, ToolRecord]) -> None:
        self._run = run
        self._takers = find_taken(steps)
        """Which event each step has taken."""
        self._taken = Counter(self._takers.values())
        """By how many steps: one that a loser has given back is taken by a later step."""
        self._input_ids = frozenset(
            message.id or "" for message in find_input(run.record, run.messages)
        )
        self._read = 0
        self._waiting: list[WaitingEvent] = []
        self._in_branches: dict[str, WaitingEvent] = {}
        """Events that steps of branches have taken: those of losers may come back."""

    def take(self, path: str, name: str, wanted: JsonSchema | None) -> WaitingEvent | None:
        """Take the oldest event of a name that fits a step; None if there is none.

        One that came before its step, and does not fit it, must not end the run: it stays here for
        a step that wants it.
        """
        self._read_new()
        for place, event in enumerate(self._waiting):
            if event.name == name and (wanted is None or not wanted.violations(event.payload)):
                self._takers[path] = event.message_id
                self._taken[event.message_id] += 1
                if is_below(path):
                    self._in_branches[event.message_id] = event
                return self._waiting.pop(place)
        return None

    def has(self, name: str) -> bool:
        """Whether an event of a name waits to be taken."""
        self._read_new()
        return any(event.name == name for event in self._waiting)

    def give_back(self, losers: tuple[str, ...], is_last: Callable[[str], bool]) -> bool:
        """Keep for later steps what losers took and did nothing with; whether there was any.

        `is_last` says whether the code came to no step after that one. What it went on with was
        not lost: it must not come twice.
        """
        self._read_new()
        paths = [it for it in self._takers if it.startswith(losers)]
        found = [self._takers.pop(path) for path in paths if is_last(path)]
        for message_id in found:
            self._taken[message_id] -= 1
            if not self._taken[message_id] and message_id in self._in_branches:
                insort(self._waiting, self._in_branches.pop(message_id), key=_find_place)
        return bool(found)

    def list_waiting(self) -> tuple[WaitingEvent, ...]:
        """Return the events that no step has taken, oldest first."""
        self._read_new()
        return tuple(self._waiting)

    def _read_new(self) -> None:
        messages = self._run.messages
        if self._read == len(messages):
            return
        first, self._read = self._read, len(messages)
        in_branches = {it for path, it in self._takers.items() if is_below(path)}
        run_id = self._run.record.run_id
        for event in list_events(messages.list_from(first), run_id, first):
            if self._taken[event.message_id]:
                if event.message_id in in_branches:
                    self._in_branches[event.message_id] = event
            elif event.message_id not in self._input_ids:
                self._waiting.append(event)


def _find_place(event: WaitingEvent) -> int:
    return event.place


def find_taken(steps: Mapping[str, ToolRecord]) -> dict[str, str]:
    """Return the ids of the messages whose events steps have taken, by the paths of the steps."""
    return {
        path: str(record.result.metadata["event_id"])
        for path, record in steps.items()
        if record.kind == StepKind.WAIT_FOR
        and record.result is not None
        and "event_id" in record.result.metadata
    }


def find_input(record: RunRecord, messages: Transcript) -> tuple[Message, ...]:
    """Return the messages that a run began with: its arguments, and no event that it was left."""
    given = record.input
    if given.from_seq is None or given.to_seq is None:
        return ()
    found = messages.list_from(given.from_seq - 1)
    begun = found[: given.to_seq - given.from_seq + 1]
    return tuple(it for it in begun if it.sender is None or it.sender.event is None)


def list_events(messages: Iterable[Message], run_id: str, first: int = 0) -> Iterable[WaitingEvent]:
    """Read the events of a run among messages, which begin at a place."""
    for place, message in enumerate(messages, first):
        mark = message.metadata
        if message.role is not Role.USER or mark is None or mark.run_id != run_id:
            continue
        sender = message.sender
        if sender is None:
            yield WaitingEvent(message.id or "", MESSAGE_EVENT, message.text, place)
        elif sender.event is not None:
            payload = msgspec.json.decode(message.text)
            yield WaitingEvent(message.id or "", sender.event, payload, place)


def make_event_message(message_id: str, name: str, payload: Any) -> Message:
    """Make the message that carries an event.

    Raises:
        TypeError: The payload has no JSON form.
        ValueError: Likewise.
    """
    return Message(
        role=Role.USER,
        id=message_id,
        content=as_blocks(msgspec.json.encode(payload).decode()),
        sender=Sender(kind=SenderKind.EVENT, event=name),
    )


def make_event_ticket(
    action: str,
    message: str,
    on_expiry: DecisionAction,
    parameters: Any = None,
    schema: dict[str, Any] | None = None,
) -> SuspendTicket:
    """A ticket that no person decides: an event or its deadline does."""
    return SuspendTicket(
        suspension=Suspension(
            action=f"workflow:{action}",
            message=message,
            parameters=parameters,
            response_schema=schema,
        ),
        resume_mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT,
        asks=Asks.EVENT,
        deciders=(),
        on_expiry=on_expiry,
    )
