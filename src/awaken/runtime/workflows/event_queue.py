"""Events that were sent to a workflow: messages of its thread, kept in order until they are taken.

An event is a message, so it is durable, delivered once and shown like any other. A chat message
is the event `message`.
"""

from collections.abc import Iterable
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


class WaitingEvent(msgspec.Struct, frozen=True):
    """An event that no step has taken yet."""

    message_id: str
    name: str
    payload: Any


class EventQueue:
    """The events of a run that no step has taken, in the order of the transcript."""

    def __init__(self, run: Run, records: Iterable[ToolRecord]) -> None:
        self._run = run
        self._taken = find_taken(records)
        self._input_ids = frozenset(
            message.id or "" for message in find_input(run.record, run.messages)
        )
        self._read = 0
        self._waiting: list[WaitingEvent] = []

    def take(self, name: str, wanted: JsonSchema | None) -> WaitingEvent | None:
        """Take the oldest event of a name that fits; None if there is none.

        One that came before its step, and does not fit it, must not end the run: it stays here for
        a step that wants it.
        """
        self._read_new()
        for place, event in enumerate(self._waiting):
            if event.name == name and (wanted is None or not wanted.violations(event.payload)):
                self._taken.add(event.message_id)
                return self._waiting.pop(place)
        return None

    def list_waiting(self) -> tuple[WaitingEvent, ...]:
        """Return the events that no step has taken, oldest first."""
        self._read_new()
        return tuple(self._waiting)

    def _read_new(self) -> None:
        messages = self._run.messages
        if self._read == len(messages):
            return
        first, self._read = self._read, len(messages)
        for event in list_events(messages.list_from(first), self._run.record.run_id):
            if event.message_id not in self._taken and event.message_id not in self._input_ids:
                self._waiting.append(event)


def find_taken(records: Iterable[ToolRecord]) -> set[str]:
    """Return the ids of the messages whose events steps have taken."""
    return {
        str(record.result.metadata["event_id"])
        for record in records
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


def list_events(messages: Iterable[Message], run_id: str) -> Iterable[WaitingEvent]:
    """Read the events of a run among messages."""
    for message in messages:
        mark = message.metadata
        if message.role is not Role.USER or mark is None or mark.run_id != run_id:
            continue
        sender = message.sender
        if sender is None:
            yield WaitingEvent(message.id or "", MESSAGE_EVENT, message.text)
        elif sender.event is not None:
            payload = msgspec.json.decode(message.text)
            yield WaitingEvent(message.id or "", sender.event, payload)


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
