"""Which tickets a commit may write, and which tickets the thread head keeps."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from awaken.contracts.errors import AlreadyDecided, InvalidRecord, UnknownTicket
from awaken.contracts.lifecycle import TICKET_TRANSITIONS, TicketStatus, check_transition
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.store import Commit, DecidedMeanwhile
from awaken.contracts.suspension.tickets import SUPERSEDED, Ticket, ToolCallResume

from .head import Found, ThreadHead

Decision = tuple[str, ToolCallResume]


def check_tickets(found: Found, commit: Commit, open_run: RunRecord | None) -> tuple[Ticket, ...]:
    """Check the tickets of a commit and return those to write.

    `open_run` is the open run after the commit. A ticket that was decided while its run executed
    keeps its decision, even if the run ends without having seen it.

    Raises:
        DecidedMeanwhile: A message would replace a decision that was taken meanwhile.
        InvalidRecord: A ticket belongs to another thread, is open without an open run, or occurs
            twice.
        IllegalTransition: A ticket cannot change its status like this.
        AlreadyDecided: A ticket would get a second decision.
    """
    seen: set[str] = set()
    kept: list[Ticket] = []
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
        if old is None or not _is_decided(old, ticket):
            kept.append(ticket)
    return tuple(kept)


def _check_decision(ticket: Ticket) -> None:
    if ticket.status is TicketStatus.OPEN and ticket.decision is not None:
        raise _invalid(ticket, "it has a decision and is open")
    if ticket.status is TicketStatus.DECIDED and ticket.decision is None:
        raise _invalid(ticket, "it is decided and has no decision")


def _is_decided(old: Ticket, new: Ticket) -> bool:
    """Whether the stored ticket was decided, so that the commit's version must not replace it."""
    if (old.thread_id, old.run_id, old.call_id) != (new.thread_id, new.run_id, new.call_id):
        raise _invalid(new, "it belongs to another call")
    if old.decision is not None and new.status is TicketStatus.CLOSED:
        if new.closed_because == SUPERSEDED:
            raise DecidedMeanwhile(ticket_id=old.ticket_id)
        return True
    check_transition(TICKET_TRANSITIONS, f"Ticket '{new.ticket_id}'", old.status, new.status)
    if old.decision is None:
        return False
    if not old.decision.is_same(new.decision):
        raise AlreadyDecided(ticket_id=old.ticket_id, status=str(old.status))
    return True


def decide_tickets(
    head: ThreadHead,
    tickets: Mapping[str, Ticket],
    run_id: str,
    decisions: Sequence[Decision],
    queued: Iterable[RunDispatch],
) -> tuple[Ticket, ...]:
    """Return the tickets that the decisions change; repeated decisions change nothing.

    A decision that an earlier version queued counts as taken, although its ticket is open.

    Raises:
        UnknownTicket: A ticket does not belong to the run.
        AlreadyDecided: A ticket has another decision or is closed, or its run is being cancelled.
    """
    sent = {ticket_id: given for it in queued for ticket_id, given in it.request.decisions}
    decided: dict[str, Ticket] = {}
    for ticket_id, given in decisions:
        ticket = tickets.get(ticket_id)
        if ticket is None or (ticket.thread_id, ticket.run_id) != (head.shown.id, run_id):
            raise UnknownTicket(ticket_id=ticket_id)
        taken = ticket.decision or sent.get(ticket_id) or decided.get(ticket_id, ticket).decision
        if taken is not None and taken.is_same(given):
            continue
        if ticket.status is not TicketStatus.OPEN:
            raise AlreadyDecided(ticket_id=ticket_id, status=str(ticket.status))
        if taken is not None:
            raise AlreadyDecided(ticket_id=ticket_id, status=str(TicketStatus.DECIDED))
        if head.cancel_cause is not None:
            raise AlreadyDecided(ticket_id=ticket_id, status=str(TicketStatus.CLOSED))
        decided[ticket_id] = msgspec.structs.replace(
            ticket, status=TicketStatus.DECIDED, decision=given, updated_at=given.updated_at
        )
    return tuple(decided.values())


def check_no_open_ticket(head: ThreadHead, tickets: Iterable[Ticket]) -> None:
    """Check that no ticket of the thread's run stays open when the run ends.

    Raises:
        InvalidRecord: A ticket of the run stays open.
    """
    after = head.live_tickets | {ticket.ticket_id: ticket for ticket in tickets}
    for ticket in after.values():
        if ticket.status is TicketStatus.OPEN:
            raise _invalid(ticket, "its run ends, and it stays open")


def update_live_tickets(
    head: ThreadHead, tickets: Iterable[Ticket], open_run: RunRecord | None
) -> None:
    """Keep the open and decided tickets of the open run with its thread."""
    for ticket in tickets:
        is_of_open_run = open_run is not None and ticket.run_id == open_run.run_id
        if is_of_open_run and ticket.status is not TicketStatus.CLOSED:
            head.live_tickets[ticket.ticket_id] = ticket
        else:
            head.live_tickets.pop(ticket.ticket_id, None)


def _invalid(ticket: Ticket, problem: str) -> InvalidRecord:
    return InvalidRecord(what=f"Ticket '{ticket.ticket_id}'", problem=problem)
