"""Resolves which ticket a decision means, how it is read, and which id it gets."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.suspension.errors import AmbiguousTicket, InvalidDecision
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume
from awaken.contracts.suspension.verdicts import read_decision
from awaken.mailbox.submissions import digest

Find = Callable[[Sequence[Ticket], str], Ticket]
"""Finds a ticket by name among all tickets of a run."""


def resolve_decisions(
    tickets: Sequence[Ticket],
    decisions: Mapping[str, ToolCallResume],
    decided_by: str,
    find: Find,
) -> list[tuple[str, ToolCallResume]]:
    """Resolve the names that a client gave to tickets of a run; returns decisions by ticket id.

    Raises:
        UnknownTicket: No ticket has one of the names.
        AmbiguousTicket: Several tickets may be meant.
        InvalidInput: A decision is not a clear answer, or two on one ticket contradict each other.
    """
    found: dict[str, ToolCallResume] = {}
    for name, given in decisions.items():
        ticket_id, decision = resolve_decision(tickets, name, given, decided_by, find)
        if found.setdefault(ticket_id, decision) != decision:
            what = f"The decision on ticket '{ticket_id}'"
            raise InvalidDecision(what=what, problem="there are two, which differ")
    return list(found.items())


def resolve_decision(
    tickets: Sequence[Ticket],
    name: str,
    given: ToolCallResume,
    decided_by: str,
    find: Find,
) -> tuple[str, ToolCallResume]:
    """Resolve the name that a client gave to a ticket of a run, and read the decision on it.

    A decision that was stored before means the ticket it was stored for. If the same call has
    asked something else since then, the name of the call is not enough.

    Raises:
        UnknownTicket: No ticket has that name.
        AmbiguousTicket: Several tickets may be meant.
        InvalidInput: The decision is not a clear answer to what the ticket asks.
    """
    ticket = find(tickets, name)
    earlier = [] if name == ticket.ticket_id else [it for it in tickets if it.call_id == name]
    for it in earlier:
        if it is not ticket and _is_taken(it, given):
            if ticket.status is TicketStatus.OPEN:
                problem = "the same was decided on an earlier one"
                raise AmbiguousTicket(name=name, problem=problem, known=ticket.ticket_id)
            ticket = it
    read = read_decision(ticket, given)
    decision = msgspec.structs.replace(
        read, decision_id=_decision_id(ticket, read), decided_by=decided_by
    )
    return ticket.ticket_id, decision


def _is_taken(ticket: Ticket, given: ToolCallResume) -> bool:
    """Whether a ticket was decided by exactly this decision."""
    if ticket.decision is None:
        return False
    try:
        read = read_decision(ticket, given)
    except InvalidDecision:
        return False
    return ticket.decision.decision_id == _decision_id(ticket, read)


def _decision_id(ticket: Ticket, read: ToolCallResume) -> str:
    if read.decision_id:
        return read.decision_id
    content = [ticket.ticket_id, read.action, read.result, read.arguments]
    if read.remember is not None:
        content.append(read.remember)
    return digest(content)
