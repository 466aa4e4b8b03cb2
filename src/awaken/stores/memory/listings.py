"""Listings in pages and in order. Nothing here changes anything."""

from bisect import bisect_left, bisect_right
from itertools import takewhile

from awaken.contracts.errors import CursorExpired
from awaken.contracts.events import LoggedEvent
from awaken.contracts.messages.message import MessageRecord, Visibility, record_of
from awaken.contracts.messages.sizes import message_bytes
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.queries import (
    DispatchQuery,
    MessageQuery,
    Order,
    Page,
    PageRoom,
    RunQuery,
    ThreadQuery,
    VisibilityFilter,
    page_of,
)

from .tables import AppliedCommit, StoredThread, Tables


def list_threads(tables: Tables, query: ThreadQuery) -> Page[Thread]:
    """List matching threads, most recently updated first, ties by id."""
    found = [thread for thread in tables.threads.values() if _fits_thread(thread.shown, query)]
    found.sort(key=_recent_first)
    page = found[query.offset : query.offset + query.limit]
    return page_of(tuple(thread.view() for thread in page), len(found), query)


def _fits_thread(thread: Thread, query: ThreadQuery) -> bool:
    if query.tenant_id is not None and thread.tenant_id != query.tenant_id:
        return False
    if query.resource_id is not None and thread.resource_id != query.resource_id:
        return False
    if query.parent_id is not None and thread.parent_thread_id != query.parent_id:
        return False
    return not (query.roots_only and thread.parent_thread_id is not None)


def _recent_first(thread: StoredThread) -> tuple[int, str]:
    return -(thread.updated_at or thread.shown.metadata.created_at or 0), thread.shown.id


def list_messages(thread: StoredThread, thread_id: str, query: MessageQuery) -> Page[MessageRecord]:
    """List matching messages by their place in the thread."""
    first = max(query.after or 0, 0) + 1
    last = len(thread.messages)
    if query.before is not None:
        last = min(last, query.before - 1)
    found: range | list[int] = range(first, last + 1)
    if query.run_id is not None or query.visibility is not VisibilityFilter.ANY:
        found = [seq for seq in found if _fits_message(thread, seq, query)]
    if query.order is Order.DESC:
        found = found[::-1]
    room, page = PageRoom(), found[query.offset : query.offset + query.limit]
    page = [
        *takewhile(lambda seq: room.takes(message_bytes(thread.messages[seq - 1])), page),
    ]
    history = list(thread.applied.values())
    items = tuple(
        record_of(
            thread.messages[seq - 1],
            thread_id=thread_id,
            seq=seq,
            created_at=history[bisect_left(history, seq, key=_message_count)].committed_at,
        )
        for seq in page
    )
    return page_of(items, len(found), query)


def _fits_message(thread: StoredThread, seq: int, query: MessageQuery) -> bool:
    message = thread.messages[seq - 1]
    if query.visibility is not VisibilityFilter.ANY:
        wants_internal = query.visibility is VisibilityFilter.INTERNAL
        if wants_internal is not (message.visibility is Visibility.INTERNAL):
            return False
    produced_by = message.metadata.run_id if message.metadata is not None else None
    return query.run_id is None or produced_by == query.run_id


def _message_count(applied: AppliedCommit) -> int:
    return applied.message_count


def list_runs(tables: Tables, query: RunQuery) -> Page[RunRecord]:
    """List matching runs by creation time, ties by id."""
    # Most programs run agents and list nothing.
    from awaken.contracts.storage.keysets import list_rows, run_key  # noqa: PLC0415

    runs = list(tables.runs.values())
    if query.thread_id is not None:
        thread = tables.threads.get(query.thread_id)
        runs = [] if thread is None else [tables.runs[run_id] for run_id in thread.run_ids]
    if query.tenant_id is not None:
        threads, tenant = tables.threads, query.tenant_id
        runs = [run for run in runs if threads[run.thread_id].shown.tenant_id == tenant]
    return list_rows([run for run in runs if _fits_run(run, query)], query, run_key)


def _fits_run(run: RunRecord, query: RunQuery) -> bool:
    prefix = query.q or ""
    return (
        query.status in (None, run.status)
        and query.agent_id in (None, run.agent_id)
        and (not query.kinds or run.kind in query.kinds)
        and query.ended in (None, run.ended)
        and query.publication in (None, run.publication)
        and (run.run_id.startswith(prefix) or run.thread_id.startswith(prefix))
    )


def list_dispatches(tables: Tables, query: DispatchQuery) -> Page[RunDispatch]:
    """List matching dispatches, oldest first, ties by id."""
    found = list(tables.dispatches.values())
    if query.thread_id is not None:
        thread = tables.threads.get(query.thread_id)
        ids = () if thread is None else thread.dispatch_ids
        found = [tables.dispatches[dispatch_id] for dispatch_id in ids]
    if query.dedupe_key is not None:
        kept = tables.dedupe_keys.get((query.thread_id or "", query.dedupe_key))
        found = [] if kept is None else [tables.dispatches[kept]]
    if query.status is not None:
        found = [dispatch for dispatch in found if dispatch.status is query.status]
    found.sort(key=lambda dispatch: (dispatch.created_at, dispatch.dispatch_id))
    return page_of(tuple(found[query.offset : query.offset + query.limit]), len(found), query)


def list_events(thread: StoredThread, after: int, limit: int) -> tuple[LoggedEvent, ...]:
    """List events with a sequence number above `after`, at most `limit` of them.

    Raises:
        CursorExpired: Events after that number were purged.
    """
    purged = thread.purged_seq
    if 0 < after < purged:
        raise CursorExpired(thread_id=thread.shown.id, purged_seq=purged)
    seq = max(after, purged)
    last = min(seq + max(limit, 0), thread.event_seq)
    found: list[LoggedEvent] = []
    history = list(thread.applied.values())
    place = bisect_right(history, seq, key=_event_seq)
    while seq < last:
        applied = history[place]
        for event in thread.events[seq - purged : min(applied.event_seq, last) - purged]:
            seq += 1
            found.append(
                LoggedEvent(
                    seq=seq,
                    run_id=applied.run_id,
                    event=event,
                    created_at=applied.committed_at,
                )
            )
        place += 1
    return tuple(found)


def _event_seq(applied: AppliedCommit) -> int:
    return applied.event_seq
