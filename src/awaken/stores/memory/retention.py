"""Tickets whose deadline has passed, and the purge of old records.

`purge` removes what ended before a time, as every store does. Besides, this store forgets ended
runs by itself when there are too many of them, because it may have no worker that calls `purge`.
What stays is the same: messages, state, receipts, and the latest run of each thread.
"""

from collections.abc import Collection, Container, Iterable
from itertools import islice

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.dispatch import Purged, RunDispatch
from awaken.contracts.suspension.tickets import Ticket

from .listings import list_events
from .tables import StoredThread, Tables


def list_expired_tickets(tables: Tables, now: int, limit: int) -> tuple[Ticket, ...]:
    """List open tickets whose deadline has passed, oldest deadline first, ties by id."""
    found = [
        (ticket.expires_at, ticket.ticket_id, ticket)
        for ticket in tables.open_tickets.values()
        if ticket.expires_at is not None and ticket.expires_at < now
    ]
    return tuple(ticket for _, _, ticket in sorted(found, key=lambda entry: entry[:2])[:limit])


def forget_ended_runs(tables: Tables, newest: RunRecord) -> None:
    """Purge the oldest ended runs beyond the limits of the store, a few at a time.

    Called once for each batch of runs that have ended, so that the records of a thread are
    rewritten once for all of them. The latest run of a thread loses its events and its journal
    only, and the rest when a later run of the thread is due as well. A run that a queued dispatch
    or an unfinished parent run may still ask for is left for a later batch.
    """
    ended = tables.ended
    ended.since = 0
    excess = 0 if ended.limit is None else len(ended.order) - ended.limit
    before_ms = None if ended.age_ms is None else _ended_at(newest) - ended.age_ms
    due: list[RunRecord] = []
    # Twice as many as have ended since, so that a backlog gets shorter.
    for place, run_id in enumerate([*islice(ended.order, 2 * ended.batch)]):
        run = tables.runs.get(run_id)
        if run is not None and run.status is not RunStatus.DONE:
            # A new run with the id of one that was deleted with its thread.
            run = None
        is_old = run is not None and before_ms is not None and _ended_at(run) < before_ms
        if run is not None and not is_old and place >= excess:
            break
        del ended.order[run_id]
        if run is None:
            continue
        if _is_asked_for(tables, run):
            ended.order[run_id] = None
        else:
            due.append(run)
    _forget_runs(tables, due)


def _forget_runs(tables: Tables, due: Iterable[RunRecord]) -> None:
    by_thread: dict[str, dict[str, RunRecord]] = {}
    for run in due:
        by_thread.setdefault(run.thread_id, {})[run.run_id] = run
    for thread_id, runs in by_thread.items():
        thread = tables.threads[thread_id]
        # It was the latest run of the thread when it was due.
        earlier = tables.runs.get(tables.ended.latest.pop(thread_id, ""))
        if earlier is not None:
            runs[earlier.run_id] = earlier
        _forget_events(tables, thread, runs)
        last_ms = max(map(_ended_at, runs.values()))
        latest_id = thread.shown.latest_run_id
        if latest_id in runs:
            tables.ended.latest[thread_id] = latest_id
            # Other stores have the journal of tool calls in the log, which is gone as well.
            tables.tool_records.pop(latest_id, None)
            del runs[latest_id]
        if runs:
            _remove_runs(tables, thread, runs)
        if thread.dispatch_ids:
            # A key that a client may repeat is remembered for the whole retention period.
            ended = [
                dispatch
                for dispatch in map(tables.dispatches.__getitem__, thread.dispatch_ids)
                if dispatch.completed_at is not None
                and dispatch.completed_at <= last_ms
                and dispatch.dedupe_key is None
            ]
            _remove_dispatches(tables, thread, ended)


def _is_asked_for(tables: Tables, run: RunRecord) -> bool:
    """Whether a dispatch that has not ended names the run, or its parent run has not ended."""
    parent = None if run.parent_run_id is None else tables.runs.get(run.parent_run_id)
    if parent is not None and parent.status is not RunStatus.DONE:
        return True
    if run.run_id not in tables.run_dispatches:
        return False
    named = tables.run_dispatches[run.run_id]
    return any(tables.dispatches[id_].completed_at is None for id_ in named)


def _forget_events(tables: Tables, thread: StoredThread, gone: Container[str]) -> None:
    """Remove the events before the oldest run that is kept; without one, all of them."""
    first_kept = next((run_id for run_id in thread.run_ids if run_id not in gone), None)
    last = thread.event_seq if first_kept is None else tables.runs[first_kept].log_start
    if last > thread.purged_seq:
        del thread.events[: last - thread.purged_seq]
        thread.purged_seq = last
        thread.drop_purged_notes()


def purge(tables: Tables, before_ms: int, limit: int, kept: Container[str] = ()) -> Purged:
    """Remove records that ended before a time; see `MailboxStore.purge`."""
    return Purged(
        dispatches=_purge_dispatches(tables, before_ms, limit),
        runs=_purge_runs(tables, before_ms, limit, kept),
        events=_purge_events(tables, before_ms, limit, kept),
        orders=_purge_orders(tables, before_ms, limit),
    )


def _purge_dispatches(tables: Tables, before_ms: int, limit: int) -> int:
    old = [
        dispatch
        for dispatch in tables.dispatches.values()
        if dispatch.completed_at is not None and dispatch.completed_at < before_ms
    ][:limit]
    by_thread: dict[str, list[RunDispatch]] = {}
    for dispatch in old:
        by_thread.setdefault(dispatch.thread_id, []).append(dispatch)
    for thread_id, dispatches in by_thread.items():
        _remove_dispatches(tables, tables.threads[thread_id], dispatches)
    return len(old)


def _remove_dispatches(
    tables: Tables, thread: StoredThread, dispatches: Iterable[RunDispatch]
) -> None:
    gone = {dispatch.dispatch_id: dispatch for dispatch in dispatches}
    if gone:
        thread.dispatch_ids = tuple(id_ for id_ in thread.dispatch_ids if id_ not in gone)
    for dispatch in gone.values():
        tables.forget_dispatch(dispatch)


def _purge_runs(tables: Tables, before_ms: int, limit: int, kept: Container[str]) -> int:
    old = [
        run
        for run in tables.runs.values()
        if _is_old(tables, run, before_ms) and run.run_id not in kept
    ][:limit]
    by_thread: dict[str, set[str]] = {}
    for run in old:
        by_thread.setdefault(run.thread_id, set()).add(run.run_id)
    for thread_id, run_ids in by_thread.items():
        _remove_runs(tables, tables.threads[thread_id], run_ids)
    return len(old)


def _remove_runs(tables: Tables, thread: StoredThread, gone: Collection[str]) -> None:
    thread.run_ids = tuple(id_ for id_ in thread.run_ids if id_ not in gone)
    if thread.ticket_ids:
        _purge_tickets(tables, thread, gone)
    for run_id in gone:
        del tables.runs[run_id]
        tables.tool_records.pop(run_id, None)


def _is_old(tables: Tables, run: RunRecord, before_ms: int) -> bool:
    if run.status is not RunStatus.DONE or _ended_at(run) >= before_ms:
        return False
    return tables.threads[run.thread_id].shown.latest_run_id != run.run_id


def _ended_at(run: RunRecord) -> int:
    return run.updated_at if run.finished_at is None else run.finished_at


def _purge_tickets(tables: Tables, thread: StoredThread, run_ids: Container[str]) -> None:
    gone = {id_ for id_ in thread.ticket_ids if tables.tickets[id_].run_id in run_ids}
    thread.ticket_ids = tuple(id_ for id_ in thread.ticket_ids if id_ not in gone)
    for ticket_id in gone:
        del tables.tickets[ticket_id]


def _purge_events(tables: Tables, before_ms: int, limit: int, kept: Container[str]) -> int:
    """Remove the oldest events first, so that the rest has no gap."""
    removed = 0
    for thread in tables.threads.values():
        if removed >= limit:
            break
        if not thread.events:
            continue
        open_id = None if thread.open_run is None else thread.open_run.run_id
        count = 0
        for logged in list_events(thread, thread.purged_seq, limit - removed):
            if logged.created_at >= before_ms or (open_id and logged.run_id == open_id):
                break
            if logged.run_id in kept:
                break
            count += 1
        del thread.events[:count]
        thread.purged_seq += count
        thread.drop_purged_notes()
        removed += count
    return removed


def _purge_orders(tables: Tables, before_ms: int, limit: int) -> int:
    dead = (it for _, it in tables.outbox.values() if it.is_dead and it.due_at < before_ms)
    gone = [entry.entry_id for entry in islice(dead, limit)]
    for entry_id in gone:
        del tables.outbox[entry_id]
    return len(gone)
