"""Decisions on tickets: written to the ticket itself, whether or not its thread is claimed."""

from collections.abc import Sequence

from awaken.contracts.errors import UnknownTicket
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.stores.rules.tickets import Decision, decided_tickets, live_after

from .commits import apply_ticket
from .queues import Queues
from .tables import StoredThread, Tables


def decide(
    tables: Tables,
    queues: Queues,
    place: tuple[str, str],
    decisions: Sequence[Decision],
    then: RunDispatch | None,
) -> RunDispatch | None:
    """Decide tickets of a thread's run, all or none; see `RunStore.decide`."""
    thread_id, run_id = place
    thread = tables.threads.get(thread_id)
    if thread is None:
        raise UnknownTicket(ticket_id=decisions[0][0])
    decided = decided_tickets(thread, tables.tickets, run_id, decisions, _list_sent(tables, thread))
    for ticket in decided:
        apply_ticket(tables, thread, ticket)
    live_after(thread, decided, thread.open_run)
    return queues.add(then) if decided and then is not None else None


def _list_sent(tables: Tables, thread: StoredThread) -> list[RunDispatch]:
    """List the queued dispatches of a thread and the one that is executed there."""
    ids = [entry[2] for entry in thread.queue]
    if thread.claim is not None and thread.claim.dispatch_id is not None:
        ids.append(thread.claim.dispatch_id)
    return [tables.dispatches[dispatch_id] for dispatch_id in ids]
