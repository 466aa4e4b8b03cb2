"""The rule that keeps a transcript valid. It looks at the change alone, never at the history.

From the calls that are open before a commit it derives the calls that are open after it.
"""

from collections.abc import Iterable

from awaken.contracts.errors import InvalidTranscript
from awaken.contracts.identity import GENERATED_ID
from awaken.contracts.lifecycle import RunStatus, TicketStatus
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.suspension.tickets import Ticket

from .head import OpenCalls

_ASSISTANT, _TOOL = (
    Role.ASSISTANT,
    Role.TOOL,
)  # Bound once: Python 3.11 reads a member through its class slowly.


class CallChange(Record, frozen=True, kw_only=True):
    """What a commit's messages do to the open calls."""

    opened: OpenCalls
    """Calls that the messages ask for and do not answer."""
    answered: set[str]
    """Calls that were open before the commit and have their result now."""


NO_CHANGE = CallChange(opened={}, answered=set())


def foreign_ids(messages: Iterable[Message]) -> list[str]:
    """Return the ids that may have been used before; the runtime itself made all others.

    An id of a run begins with the time and is fresh. A client can send one again, with the message
    that has it or with another one: `runtime/journal/known_messages.py` finds that out, because a
    run has its whole transcript, to which a commit adds only if nothing else was added.
    """
    found = []
    for message in messages:
        if GENERATED_ID.fullmatch(message.id or "") is None:
            found.append(message.id or "")
    return found


def check_calls(thread_id: str, open_calls: OpenCalls, messages: tuple[Message, ...]) -> CallChange:
    """Work out which calls the messages open and answer.

    Raises:
        InvalidTranscript: A result has no open call, or another message comes before a result.
    """
    opened: OpenCalls = {}
    answered: set[str] = set()
    for message in messages:
        calls = message.tool_calls
        if message.role is _TOOL:
            call_id = message.tool_call_id or ""
            if calls:
                raise _invalid(thread_id, f"the result of call '{call_id}' asks for calls")
            if call_id in opened:
                del opened[call_id]
            elif call_id in open_calls and call_id not in answered:
                answered.add(call_id)
            else:
                raise _invalid(thread_id, f"a result for call '{call_id}', which is not open")
            continue
        if opened or (open_calls and len(answered) < len(open_calls)):
            waiting = [*opened, *(call for call in open_calls if call not in answered)]
            raise _invalid(thread_id, f"a message follows calls without a result: {waiting}")
        for call in calls or ():
            if message.role is not _ASSISTANT:
                raise _invalid(thread_id, f"a {message.role} message asks for calls")
            if not call.id or call.id in opened:
                raise _invalid(thread_id, "a call id is blank or comes twice in one message")
            opened[call.id] = ()
    if not (opened or answered):
        return NO_CHANGE
    return CallChange(opened=opened, answered=answered)


def find_open_calls(
    open_calls: OpenCalls,
    change: CallChange,
    tickets: Iterable[Ticket],
    run: RunRecord | None,
) -> OpenCalls:
    """Return the open calls after a commit, each with the tickets that it waits on.

    A ticket covers its call only if it belongs to the open run and was written while the call was
    open, so an old ticket never covers a later call with the same id.
    """
    calls = {call: held for call, held in open_calls.items() if call not in change.answered}
    calls.update(change.opened)
    for ticket in tickets:
        if run is None or ticket.run_id != run.run_id or ticket.call_id not in calls:
            continue
        held = tuple(held for held in calls[ticket.call_id] if held != ticket.ticket_id)
        is_closed = ticket.status is TicketStatus.CLOSED
        calls[ticket.call_id] = held if is_closed else (*held, ticket.ticket_id)
    return calls


def check_open_calls(thread_id: str, calls: OpenCalls, run: RunRecord | None) -> None:
    """Check that a run works on the open calls; `run` is the open run after the commit.

    Raises:
        InvalidTranscript: No run works on the thread, or it waits and a call has no ticket. A run
            that is held in the middle of a step goes on with its calls when it is repinned.
    """
    if not calls:
        return
    if run is None or run.status is RunStatus.CREATED:
        raise _invalid(thread_id, f"no run works on the calls without a result: {list(calls)}")
    if run.status is RunStatus.WAITING and not run.is_held:
        bare = [call for call, held in calls.items() if not held]
        if bare:
            raise _invalid(thread_id, f"run '{run.run_id}' waits without a ticket for calls {bare}")


def _invalid(thread_id: str, problem: str) -> InvalidTranscript:
    return InvalidTranscript(thread_id=thread_id, problem=problem)
