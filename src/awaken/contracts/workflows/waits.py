"""What a workflow waits for, in the words that people read on every wire."""

from datetime import UTC, datetime

from awaken.contracts.suspension.tickets import Asks, SuspendTicket, Ticket

from .steps import MESSAGE_EVENT

_LAST_MS = 253_402_300_799_000
"""The end of the year 9999, the last date that can be formatted."""


def asks_person(ticket: Ticket | SuspendTicket) -> bool:
    """Whether a person decides the ticket; otherwise an event or its deadline does."""
    return ticket.question_kind is not Asks.EVENT


def awaits_message(ticket: Ticket | SuspendTicket) -> bool:
    """Whether the next chat message continues the call."""
    return not asks_person(ticket) and _find_event(ticket) == MESSAGE_EVENT


def describe_wait(ticket: Ticket | SuspendTicket) -> str:
    """Return what a call that no person decides waits for: an event by its name, or a time."""
    until = ticket.expires_at
    at = "" if until is None or until > _LAST_MS else _date(until)
    event = _find_event(ticket)
    if event is None:
        return f"The workflow sleeps until {at}." if at else "The workflow sleeps."
    return f"The workflow waits for the event '{event}'{f' until {at}' if at else ''}."


def _find_event(ticket: Ticket | SuspendTicket) -> str | None:
    match ticket.suspension.parameters:
        case {"event": str(name)}:
            return name
        case _:
            return None


def _date(time_ms: int) -> str:
    return datetime.fromtimestamp(max(time_ms, 0) / 1000, UTC).isoformat(timespec="seconds")
