"""Tickets whose deadline has passed, and the purge of old records."""

from itertools import islice

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.dispatch import Purged
from awaken.contracts.suspension.tickets import Ticket

from .listings import list_events
from .tables import StoredThread, Tables


def list_expired_tickets(tables: Tables, now: int, limit: int) -> tuple[Ticket, ...]:
    """List open tickets whose deadline has passed, oldest deadline first, ties by id."""
    found = [
        (ticket.expires_at, ticket.ticket_id, ticket)
        for ticket in tables.open_tickets.values()
        if ticket.expires_at is not None and ticket.expires_at <= now
    ]
    return tuple(ticket for _, _, ticket in sorted(found, key=lambda entry: entry[:2])[:limit])


def purge(tables: Tables, before_ms: int, limit: int) -> Purged:
    """Remove records that ended before a time; see `MailboxStore.purge`."""
    return Purged(
        dispatches=_purge_dispatches(tables, before_ms, limit),
        runs=_purge_runs(tables, before_ms, limit),
        events=_purge_events(tables, before_ms, limit),
        orders=_purge_orders(tables, before_ms, limit),
    )


def _purge_dispatches(tables: Tables, before_ms: int, limit: int) -> int:
    old = [
        dispatch
        for dispatch in tables.dispatches.values()
        if dispatch.completed_at is not None and dispatch.completed_at < before_ms
    ][:limit]
    gone = {dispatch.dispatch_id for dispatch in old}
    for thread_id in {dispatch.thread_id for dispatch in old}:
        thread = tables.threads[thread_id]
        thread.dispatch_ids = tuple(id_ for id_ in thread.dispatch_ids if id_ not in gone)
    for dispatch in old:
        tables.forget_dispatch(dispatch)
    return len(old)


def _purge_runs(tables: Tables, before_ms: int, limit: int) -> int:
    old = [run for run in tables.runs.values() if _is_old(tables, run, before_ms)][:limit]
    gone = {run.run_id for run in old}
    for thread_id in {run.thread_id for run in old}:
        thread = tables.threads[thread_id]
        thread.run_ids = tuple(id_ for id_ in thread.run_ids if id_ not in gone)
        _purge_tickets(tables, thread, gone)
    for run_id in gone:
        del tables.runs[run_id]
        tables.tool_records.pop(run_id, None)
    return len(old)


def _is_old(tables: Tables, run: RunRecord, before_ms: int) -> bool:
    ended_at = run.updated_at if run.finished_at is None else run.finished_at
    if run.status is not RunStatus.DONE or ended_at >= before_ms:
        return False
    return tables.threads[run.thread_id].shown.latest_run_id != run.run_id


def _purge_tickets(tables: Tables, thread: StoredThread, run_ids: set[str]) -> None:
    gone = {id_ for id_ in thread.ticket_ids if tables.tickets[id_].run_id in run_ids}
    thread.ticket_ids = tuple(id_ for id_ in thread.ticket_ids if id_ not in gone)
    for ticket_id in gone:
        del tables.tickets[ticket_id]


def _purge_events(tables: Tables, before_ms: int, limit: int) -> int:
    """Remove the oldest events first, so that the rest has no gap."""
    removed = 0
    for thread in tables.threads.values():
        if removed >= limit:
            break
        open_id = None if thread.open_run is None else thread.open_run.run_id
        count = 0
        for logged in list_events(thread, thread.purged_seq, limit - removed):
            if logged.created_at >= before_ms or (open_id and logged.run_id == open_id):
                break
            count += 1
        del thread.events[:count]
        thread.purged_seq += count
        removed += count
    return removed


def _purge_orders(tables: Tables, before_ms: int, limit: int) -> int:
    dead = (it for _, it in tables.outbox.values() if it.is_dead and it.due_at < before_ms)
    gone = [entry.entry_id for entry in islice(dead, limit)]
    for entry_id in gone:
        del tables.outbox[entry_id]
    return len(gone)
