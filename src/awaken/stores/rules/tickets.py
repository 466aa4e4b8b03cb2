"""What a ticket may say, and where it is kept."""

from collections.abc import Iterable

from awaken.contracts.errors import AlreadyDecided, InvalidRecord
from awaken.contracts.lifecycle import TICKET_TRANSITIONS, TicketStatus, check_transition
from awaken.contracts.runs import RunRecord
from awaken.contracts.storage import Commit
from awaken.contracts.suspension import Ticket

from .head import Found, ThreadHead


def check_tickets(found: Found, commit: Commit, open_run: RunRecord | None) -> None:
    """Check the tickets of a commit; `open_run` is the thread's open run after it.

    Raises:
        InvalidRecord: A ticket belongs elsewhere, is open without an open run, or comes twice.
        IllegalTransition: A ticket cannot make this move.
        AlreadyDecided: A ticket would get another decision.
    """
    seen: set[str] = set()
    for ticket in commit.tickets:
        if ticket.ticket_id in seen or not ticket.ticket_id.strip():
            raise _invalid(ticket, "its id is blank or comes twice in one commit")
        seen.add(ticket.ticket_id)
        if ticket.thread_id != commit.thread_id:
            raise _invalid(ticket, f"it does not belong to thread '{commit.thread_id}'")
        _check_decision(ticket)
        is_of_open_run = open_run is not None and ticket.run_id == open_run.run_id
        if ticket.status is TicketStatus.OPEN and not is_of_open_run:
            raise _invalid(ticket, "it is open, but its run is not")
        old = found.find_ticket(ticket.ticket_id)
        if old is not None:
            _check_move(old, ticket)


def _check_decision(ticket: Ticket) -> None:
    if ticket.status is TicketStatus.OPEN and ticket.decision is not None:
        raise _invalid(ticket, "it has a decision and is open")
    if ticket.status is TicketStatus.DECIDED and ticket.decision is None:
        raise _invalid(ticket, "it is decided and has no decision")


def _check_move(old: Ticket, new: Ticket) -> None:
    if (old.thread_id, old.run_id, old.call_id) != (new.thread_id, new.run_id, new.call_id):
        raise _invalid(new, "it belongs to another call")
    check_transition(TICKET_TRANSITIONS, f"Ticket '{new.ticket_id}'", old.status, new.status)
    if old.decision is not None and old.decision != new.decision:
        raise AlreadyDecided(ticket_id=old.ticket_id, status=str(old.status))


def check_no_open_ticket(head: ThreadHead, tickets: Iterable[Ticket]) -> None:
    """Check that the end of the thread's run leaves nobody a ticket to decide in vain.

    Raises:
        InvalidRecord: A ticket of the run stays open.
    """
    after = head.live_tickets | {ticket.ticket_id: ticket for ticket in tickets}
    for ticket in after.values():
        if ticket.status is TicketStatus.OPEN:
            raise _invalid(ticket, "its run ends, and it stays open")


def live_after(head: ThreadHead, tickets: Iterable[Ticket], open_run: RunRecord | None) -> None:
    """Keep the open and decided tickets of the open run with its thread."""
    for ticket in tickets:
        is_of_open_run = open_run is not None and ticket.run_id == open_run.run_id
        if is_of_open_run and ticket.status is not TicketStatus.CLOSED:
            head.live_tickets[ticket.ticket_id] = ticket
        else:
            head.live_tickets.pop(ticket.ticket_id, None)


def _invalid(ticket: Ticket, problem: str) -> InvalidRecord:
    return InvalidRecord(what=f"Ticket '{ticket.ticket_id}'", problem=problem)
