"""Which ticket a decision means, and under which id it is taken."""

from collections.abc import Sequence

import msgspec

from awaken.contracts.errors import UnknownTicket
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.suspension import Ticket, ToolCallResume
from awaken.mailbox.submissions import digest


def named_decision(
    tickets: Sequence[Ticket], name: str, given: ToolCallResume, decided_by: str
) -> tuple[str, ToolCallResume]:
    """The ticket of a run that a client calls by a name, and the decision on it.

    A call may have had several tickets: a decision that was taken before means the ticket it was
    taken on, any other one the ticket that is open.

    Raises:
        UnknownTicket: None of the tickets has that name.
    """
    named = [it for it in tickets if name in names(it)]
    taken = [it for it in named if it.decision and it.decision.decision_id == given.decision_id]
    still_open = [it for it in named if it.status is TicketStatus.OPEN]
    ticket = next(iter((*taken, *still_open, *reversed(named))), None)
    if ticket is None:
        raise UnknownTicket(ticket_id=name)
    content = [ticket.ticket_id, given.action, given.result, given.arguments]
    if given.remember is not None:
        content.append(given.remember)
    decision_id = given.decision_id or digest(content)
    decision = msgspec.structs.replace(given, decision_id=decision_id, decided_by=decided_by)
    return ticket.ticket_id, decision


def names(ticket: Ticket) -> tuple[str, ...]:
    """Everything that clients may call a ticket by."""
    return tuple(name for name in (ticket.suspension.id, ticket.call_id, ticket.ticket_id) if name)
