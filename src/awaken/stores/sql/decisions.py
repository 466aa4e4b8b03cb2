"""Decisions on tickets: written to the ticket itself, whether or not its thread is claimed."""

from collections.abc import Sequence

from awaken.contracts.errors import InvalidRecord, UnknownTicket
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.suspension.tickets import Ticket
from awaken.stores.rules.tickets import Decision, decide_tickets

from . import rows
from .heads import StoredHead, lock_head
from .queues import add, find, list_queued
from .session import SqlSession


async def decide(
    session: SqlSession,
    place: tuple[str, str],
    decisions: Sequence[Decision],
    then: RunDispatch | None,
) -> RunDispatch | None:
    """Decide tickets of a thread's run, all or none; see `RunStore.decide`."""
    thread_id, run_id = place
    head = await lock_head(session, thread_id)
    if head is None:
        raise UnknownTicket(ticket_id=decisions[0][0])
    tickets, sent = await _load_named(session, head, decisions), await _list_sent(session, head)
    decided = decide_tickets(head, tickets, run_id, decisions, sent)
    for ticket in decided:
        await save_ticket(session, head, ticket)
    return await add(session, head, then) if decided and then is not None else None


async def save_ticket(session: SqlSession, head: StoredHead, ticket: Ticket) -> None:
    """Write a checked ticket.

    Raises:
        InvalidRecord: Another thread has used its id meanwhile.
    """
    is_saved = await session.run(
        "save_ticket",
        ticket.ticket_id,
        head.no,
        ticket.run_id,
        ticket.status.value,
        ticket.created_at,
        ticket.expires_at,
        rows.pack(ticket),
    )
    if not is_saved:
        problem = "another thread has used its id meanwhile"
        raise InvalidRecord(what=f"Ticket '{ticket.ticket_id}'", problem=problem)


async def _list_sent(session: SqlSession, head: StoredHead) -> list[RunDispatch]:
    """List the queued dispatches of a thread and the one that is executed there."""
    sent = await list_queued(session, head)
    if head.claim is not None and head.claim.dispatch_id is not None:
        executed = await find(session, head.claim.dispatch_id)
        sent += [] if executed is None else [executed]
    return sent


async def _load_named(
    session: SqlSession, head: StoredHead, decisions: Sequence[Decision]
) -> dict[str, Ticket]:
    """Read the tickets that the decisions name, including those of runs that have ended."""
    tickets = dict(head.live_tickets)
    for ticket_id in {ticket_id for ticket_id, _ in decisions} - tickets.keys():
        row = await session.one("find_ticket", ticket_id)
        if row is not None:
            what = f"Ticket '{ticket_id}'"
            tickets[ticket_id] = rows.unpack(row[0], rows.TICKET, what)
    return tickets
