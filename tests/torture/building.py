"""Short ways to build what a store is given. Imports the contracts only, so that it starts fast."""

from typing import Any

import msgspec

from awaken.contracts.events import RunStart
from awaken.contracts.lifecycle import RunStatus, TicketStatus
from awaken.contracts.messages.content import Text
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.messages.message import Message, Role, ToolCall
from awaken.contracts.runs.records import RunRecord, RunRequest, Waiting, WaitingReason
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.dispatch import Claim, InputMode, RunDispatch
from awaken.contracts.storage.store import Commit, OutboxEntry, StreamCheckpoint, ToolRecord
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume

RUNNING, WAITING, DONE = RunStatus.RUNNING, RunStatus.WAITING, RunStatus.DONE
OPEN, DECIDED, CLOSED = TicketStatus.OPEN, TicketStatus.DECIDED, TicketStatus.CLOSED
LONG_MS = 600_000


def commit(thread_id: str, after: int, **parts: Any) -> Commit:
    """The commit that makes version `after + 1` of a thread."""
    known: dict[str, Any] = {
        "commit_id": f"{thread_id}-c{after + 1}",
        "thread_id": thread_id,
        "expected_version": after,
        "committed_at": 1000 * (after + 1),
    }
    return Commit(**(known | parts))


def run(thread_id: str, status: RunStatus = RUNNING, name: str = "run", **fields: Any) -> RunRecord:
    """A run of a thread; a waiting one has a waiting state, a done one an end."""
    if status is WAITING:
        fields.setdefault("waiting", Waiting(reason=WaitingReason.TOOL_PERMISSION))
    if status is DONE:
        fields.setdefault("finished_at", 4000)
    known: dict[str, Any] = {"agent_id": "agent", "status": status, "created_at": 1000}
    return RunRecord(**(known | {"run_id": f"{thread_id}-{name}", "thread_id": thread_id} | fields))


def said(message_id: str, text: str = "hello", role: Role = Role.USER) -> Message:
    """A message of text."""
    return Message(role=role, id=message_id, content=(Text(text=text),))


def asked(message_id: str, *call_ids: str) -> Message:
    """An assistant message that asks for calls."""
    calls = tuple(ToolCall(id=call_id, name="search", arguments={"q": 1}) for call_id in call_ids)
    return Message(role=Role.ASSISTANT, id=message_id, tool_calls=calls)


def answered(message_id: str, call_id: str) -> Message:
    """The result of a call."""
    content = (Text(text=f"result of {call_id}"),)
    return Message(role=Role.TOOL, id=message_id, tool_call_id=call_id, content=content)


def started(thread_id: str) -> RunStart:
    """The first event of a run."""
    return RunStart(thread_id=thread_id, run_id=f"{thread_id}-run")


def spoken(text: str) -> TextDelta:
    """An event with text."""
    return TextDelta(delta=text)


def ticket(
    thread_id: str, call_id: str, status: TicketStatus = OPEN, name: str = "run", **fields: Any
) -> Ticket:
    """The ticket of a call; a decided one has a decision."""
    if status is DECIDED:
        fields.setdefault("decision", ToolCallResume(decision_id="decision"))
    return Ticket(
        ticket_id=f"{thread_id}-ticket-{call_id}",
        thread_id=thread_id,
        run_id=f"{thread_id}-{name}",
        call_id=call_id,
        tool_name="search",
        status=status,
        **fields,
    )


def tool_record(thread_id: str, call_id: str, **fields: Any) -> ToolRecord:
    """A journal entry."""
    known: dict[str, Any] = {"run_id": f"{thread_id}-run", "step": 0, "tool_name": "search"}
    return ToolRecord(**(known | {"call_id": call_id} | fields))


def value(json: str) -> StoredValue:
    """A state value."""
    return StoredValue(version=1, data=msgspec.Raw(json.encode()))


def outbox(entry_id: str) -> OutboxEntry:
    """Something to be sent."""
    return OutboxEntry(entry_id=entry_id, kind="notice", payload={"text": "hello"})


def checkpoint(thread_id: str, text: str) -> StreamCheckpoint:
    """A turn that is not over."""
    return StreamCheckpoint(
        run_id=f"{thread_id}-run",
        thread_id=thread_id,
        step=0,
        message_id="streamed",
        content=(Text(text=text),),
    )


def dispatch(
    dispatch_id: str, thread_id: str, mode: InputMode = InputMode.QUEUE, **fields: Any
) -> RunDispatch:
    """A dispatch that asks for something of its own."""
    request = RunRequest(agent_id="agent", thread_id=thread_id, messages=(said("m"),))
    known: dict[str, Any] = {"request": request, "request_hash": f"hash of {dispatch_id}"}
    fixed = {"dispatch_id": dispatch_id, "thread_id": thread_id, "mode": mode}
    return RunDispatch(**(known | {"run_id": f"{thread_id}-{dispatch_id}"} | fixed | fields))


def taking(token: str, lease_ms: int = LONG_MS) -> dict[str, Any]:
    """The parts of a commit that takes its thread."""
    return {"fencing_token": token, "claim": Claim(worker_id="process", lease_ms=lease_ms)}
