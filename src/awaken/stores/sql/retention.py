"""Deletion of threads, and the purge of old records."""

import logging
from collections.abc import Iterable, Mapping

from awaken.contracts.errors import CorruptRecord, InvalidRecord, RecordNotFound
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.dispatch import Purged
from awaken.contracts.storage.store import DeleteStrategy
from awaken.stores.rules.lineage import (
    find_reported_thread,
    find_told_run,
    list_deletion_notices,
)

from . import rows
from .heads import StoredHead, load_run, lock_head
from .log_start import find_purged_seq
from .outbox import add_outbox
from .session import SqlSession

logger = logging.getLogger(__name__)

COMMITS_AT_ONCE = 1000
THREADS_AT_ONCE = 100


async def delete_thread(session: SqlSession, thread_id: str, strategy: DeleteStrategy) -> None:
    """Delete a thread and all its records; see `ThreadStore.delete_thread`."""
    head = await lock_head(session, thread_id)
    if head is None:
        raise RecordNotFound(kind="Thread", record_id=thread_id)
    await _delete(session, head, strategy, ())


async def _delete(
    session: SqlSession, head: StoredHead, strategy: DeleteStrategy, above: tuple[str, ...]
) -> None:
    """Delete a thread below threads that are deleted with it."""
    thread_id = head.shown.id
    children = [row[0] for row in await session.all("list_children", thread_id)]
    if children and strategy is DeleteStrategy.REJECT:
        problem = f"it has children: {children}"
        raise InvalidRecord(what=f"Thread '{thread_id}'", problem=problem)
    if strategy is DeleteStrategy.CASCADE:
        for child_id in children:
            child = await lock_head(session, child_id)
            # Meanwhile another process may have deleted it or changed its parent.
            if child is not None and child.shown.parent_thread_id == thread_id:
                await _delete(session, child, strategy, (*above, thread_id))
    else:
        await session.run("detach_children", thread_id)
    await _delete_reports_to(session, head)
    await _tell_parents(session, head, above)
    await _delete_all_of(session, head)


async def _delete_reports_to(session: SqlSession, head: StoredHead) -> None:
    """Delete reports to the thread that belong to it: those of deleted children, and its checks."""
    for packed, entry_id in map(tuple, await session.all("list_thread_outbox", head.no)):
        try:
            entry = rows.unpack(packed, rows.OUTBOX, f"Outbox entry '{entry_id}'")
        except CorruptRecord:
            logger.exception("Outbox entry '%s' is damaged; it stays.", entry_id)
            continue
        if find_reported_thread(entry) == head.shown.id:
            await session.run("delete_outbox", entry_id)


async def _tell_parents(session: SqlSession, head: StoredHead, above: tuple[str, ...]) -> None:
    """Tell the parents of the open run, and of the run that the thread was created for."""
    now = (await session.now()).wall_ms
    runs = [head.open_run]
    if head.open_run is None or head.open_run.run_id != head.shown.id:
        runs.append(await _load_readable(session, head.shown.id))
    for run in runs:
        parent_id = find_told_run(run, above)
        if run is None or parent_id is None:
            continue
        notices = list_deletion_notices(run, await _load_readable(session, parent_id), now)
        await add_outbox(session, head.no, notices)
        for notice in notices:
            # It goes with the parent's thread, not with this one.
            await session.run("move_outbox", notice.entry_id, run.parent_thread_id)


async def _load_readable(session: SqlSession, run_id: str) -> RunRecord | None:
    """Read a run; one that is damaged keeps no thread from being deleted."""
    try:
        return await load_run(session, run_id)
    except CorruptRecord:
        logger.exception("Run '%s' is damaged; no parent is told that it is deleted.", run_id)
        return None


async def _delete_all_of(session: SqlSession, head: StoredHead) -> None:
    places = rows.all_places(head.no)
    for statement in ("delete_messages", "delete_commits", "delete_runs"):
        await session.run(statement, *places)
    for statement in (
        "delete_thread_state",
        "delete_tickets",
        "delete_checkpoints",
        "delete_dead_outbox",
        "delete_dispatches",
        "delete_thread",
    ):
        await session.run(statement, head.no)


async def purge(session: SqlSession, before_ms: int, limit: int, kept: Mapping[str, str]) -> Purged:
    """Remove records that ended before a time; see `MailboxStore.purge`."""
    dispatches = [row[0] for row in await session.all("list_old_dispatches", before_ms, limit)]
    for dispatch_id in dispatches:
        await session.run("delete_dispatch", dispatch_id)
    runs = 0
    # Runs that are kept are found again each time: they must not fill the page.
    old = await session.all("list_old_runs", before_ms, limit + len(kept))
    for run_id, thread_id in [(row[0], row[1]) for row in old if row[0] not in kept][:limit]:
        head = await lock_head(session, thread_id)
        if head is not None and run_id != head.shown.latest_run_id:
            await session.run("delete_run", run_id)
            await session.run("delete_run_tickets", head.no, run_id)
            runs += 1
    events = await _purge_logs(session, before_ms, limit, kept)
    orders = await session.run("purge_outbox", before_ms, limit)
    return Purged(dispatches=len(dispatches), runs=runs, events=events, orders=orders)


async def _purge_logs(
    session: SqlSession, before_ms: int, limit: int, kept: Mapping[str, str]
) -> int:
    """Purge the logs of threads until the limit is reached."""
    events = after = 0
    kept_on: dict[str, list[str]] = {}
    for run_id, thread_id in kept.items():
        kept_on.setdefault(thread_id, []).append(run_id)
    while found := await session.all("list_old_logs", before_ms, after, THREADS_AT_ONCE):
        for thread_id, number in map(tuple, found):
            if events >= limit:
                return events
            after = number
            try:
                runs = kept_on.get(thread_id, ())
                events += await _purge_log(session, thread_id, before_ms, limit - events, runs)
            except CorruptRecord:
                logger.exception("Thread '%s' is damaged; its log is left alone.", thread_id)
    return events


async def _purge_log(
    session: SqlSession, thread_id: str, before_ms: int, limit: int, kept: Iterable[str]
) -> int:
    """Remove a thread's oldest commits with their events, up to an open run or one that is kept.

    A commit is removed as a whole, so that the first one may exceed the limit of events.
    """
    head = await lock_head(session, thread_id)
    if head is None:
        return 0
    end = rows.place(head.no, head.version)
    staying = [*kept] if head.open_run is None else [head.open_run.run_id, *kept]
    for run_id in staying:
        row = await session.one("find_run", run_id)
        if row is not None:
            end = min(end, rows.place(head.no, row[2] - 1))
    first, _ = rows.all_places(head.no)
    purged = await find_purged_seq(session, head.no, head.purged_seq, head.event_seq)
    last, seq = None, purged
    for row in await session.all("list_old_commits", first, end, COMMITS_AT_ONCE):
        is_too_much = seq > purged and row[1] - purged > limit
        if row[2] >= before_ms or is_too_much:
            break
        last, seq = row[0], row[1]
    if last is None:
        return 0
    await session.run("delete_commits", first, last)
    await session.run("save_purged", head.no, rows.number_at(last), seq)
    return int(seq - purged)
