"""Find a ticket of a run by its own id, or by its call's id if that identifies one ticket only.

Call ids come from models, so they may repeat. An ambiguous name finds no ticket.
"""

from collections.abc import Iterable, Sequence

from awaken.contracts.errors import UnknownTicket
from awaken.contracts.lifecycle import TicketStatus

from .errors import AmbiguousTicket
from .tickets import Ticket

_SHOWN_MAX = 10


def find_ticket(tickets: Iterable[Ticket], name: str) -> Ticket:
    """Find a ticket of one run by its own id or its call's id.

    Raises:
        UnknownTicket: No ticket matches.
        AmbiguousTicket: It is the id of a ticket and of another's call; or see `find_by_call`.
    """
    known = tuple(tickets)
    own = [it for it in known if it.ticket_id == name]
    if not own:
        return find_by_call(known, name)
    others = [it for it in known if it.call_id == name and it is not own[0]]
    if others:
        raise _ambiguity(name, "it is the id of a ticket and of another ticket's call", known)
    return own[0]


def find_by_id(tickets: Iterable[Ticket], ticket_id: str) -> Ticket:
    """Find a ticket by its own id alone.

    Raises:
        UnknownTicket: No ticket has it.
    """
    for ticket in tickets:
        if ticket.ticket_id == ticket_id:
            return ticket
    raise UnknownTicket(ticket_id=ticket_id)


def find_by_call(tickets: Iterable[Ticket], call_id: str) -> Ticket:
    """Find the ticket of a call: the open one, else the newest.

    Raises:
        UnknownTicket: The call has none.
        AmbiguousTicket: Several tickets are open, or several calls had that id.
    """
    found = [it for it in tickets if it.call_id == call_id]
    still_open = [it for it in found if it.status is TicketStatus.OPEN]
    if not found:
        raise UnknownTicket(ticket_id=call_id)
    if len(still_open) > 1:
        raise _ambiguity(call_id, "several are open", still_open)
    if still_open and not _is_one_call(still_open[0], found):
        raise _ambiguity(call_id, "several calls of the run had that id", still_open)
    return still_open[0] if still_open else found[-1]


def _is_one_call(ticket: Ticket, found: Sequence[Ticket]) -> bool:
    """Whether all tickets of a call id belong to successive questions on the same call."""
    return len(found) - 1 <= len(ticket.answered)


def _ambiguity(name: str, problem: str, tickets: Iterable[Ticket]) -> AmbiguousTicket:
    ids = [it.ticket_id for it in tickets if it.status is TicketStatus.OPEN][:_SHOWN_MAX]
    return AmbiguousTicket(name=name, problem=problem, known=", ".join(ids) or "none is open")
