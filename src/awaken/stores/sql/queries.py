"""Queries: checkouts, threads, messages, runs, tickets, events. Nothing here changes anything."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence

from awaken.contracts.errors import CorruptRecord, CursorExpired
from awaken.contracts.events import LoggedEvent
from awaken.contracts.messages.message import Message, MessageRecord, Visibility, record_of
from awaken.contracts.messages.sizes import message_bytes
from awaken.contracts.record import Record
from awaken.contracts.runs.threads import Thread
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.queries import (
    DispatchQuery,
    MessageQuery,
    Order,
    Page,
    PageRoom,
    ThreadQuery,
    VisibilityFilter,
    page_of,
)
from awaken.contracts.storage.store import ToolRecord
from awaken.contracts.suspension.tickets import Ticket

from . import rows
from .heads import StoredHead, find_head, load_run, view_of
from .log_start import has_dropped_days
from .session import Row, SqlSession

logger = logging.getLogger(__name__)

MESSAGE_STEP = 50
"""How many messages are read at once when they are listed."""
STEP = 1000
"""How many commits are read at once when events are listed."""


class LoadedThread(Record, frozen=True, kw_only=True):
    """A thread as it was read: its head, its state, and the messages that were not cached."""

    head: StoredHead
    known: int
    fresh: tuple[Message, ...]
    state: dict[str, StoredValue]
    run_state: dict[str, StoredValue]


async def load_thread(
    session: SqlSession, thread_id: str, known: Callable[[int], int]
) -> LoadedThread | None:
    """Read a thread without its first messages, of which the caller has `known(no)`."""
    head = await find_head(session, thread_id)
    if head is None:
        return None
    # The caller may have more messages than this view of the database.
    count = min(known(head.no), head.message_count)
    fresh: list[Message] = []
    if count < head.message_count:
        first, last = rows.place(head.no, count + 1), rows.place(head.no, head.message_count)
        for place, at, body in await session.all("list_messages", first, last):
            fresh.append(_message(thread_id, place, at, body))
    _check_count(thread_id, count + len(fresh), head.message_count)
    scopes: tuple[dict[str, StoredValue], dict[str, StoredValue]] = ({}, {})
    for scope, name, version, data in await session.all("list_state", head.no):
        what = f"State '{name}' of thread '{thread_id}'"
        value = rows.unpack(data, rows.RAW, what, name, version)
        scopes[scope][name] = StoredValue(version=version, data=value)
    return LoadedThread(
        head=head,
        known=count,
        fresh=tuple(fresh),
        state=scopes[0],
        run_state=scopes[1],
    )


async def list_threads(session: SqlSession, query: ThreadQuery) -> Page[Thread]:
    """List matching threads, most recently updated first, ties by id."""
    fits = (query.resource_id, query.parent_id, int(query.roots_only))
    owner = () if query.tenant_id is None else (query.tenant_id,)
    kind = "tenant_threads" if owner else "threads"
    found = await session.all(f"list_{kind}", *fits, query.limit, query.offset, *owner)
    items: list[Thread] = []
    for row in found:
        try:
            items.append(view_of(row, await load_run(session, row[17])))
        except CorruptRecord:
            logger.exception("Thread '%s' is damaged; it is left out of a list.", row[16])
    total = await _count(session, f"count_{kind}", *fits, *owner)
    return page_of(tuple(items), total, query, damaged=len(found) - len(items))


async def list_messages(
    session: SqlSession, thread_id: str, query: MessageQuery
) -> Page[MessageRecord]:
    """List matching messages by their place in the thread."""
    row = await session.one("find_thread", thread_id)
    if row is None:
        return page_of((), 0, query)
    first, last = max(query.after or 0, 0) + 1, row[2]
    if query.before is not None:
        last = min(last, query.before - 1)
    room = PageRoom()
    if query.run_id is None and query.visibility is VisibilityFilter.ANY:
        low, high = _window(query, first, last)
        items: list[MessageRecord] = []
        async for record in _records(session, thread_id, row[0], low, high, query.order):
            if not room.takes(message_bytes(record.message)):
                break
            items.append(record)
        return page_of(tuple(items), max(last - first + 1, 0), query)
    items, count = [], 0
    async for record in _records(session, thread_id, row[0], first, last, query.order):
        if not _fits(record, query):
            continue
        is_inside = query.offset <= count < query.offset + query.limit
        if is_inside and room.takes(message_bytes(record.message)):
            items.append(record)
        count += 1
    return page_of(tuple(items), count, query)


async def list_dispatches(session: SqlSession, query: DispatchQuery) -> Page[RunDispatch]:
    """List matching dispatches, oldest first, ties by id."""
    if query.dedupe_key is not None:
        return await _list_keyed(session, query, query.dedupe_key)
    fits = (query.thread_id, query.status.value if query.status is not None else None)
    found = await session.all("list_dispatches", *fits, query.limit, query.offset)
    read = (rows.unpack_listed(row[0], rows.DISPATCH, f"Dispatch '{row[1]}'") for row in found)
    items = tuple(it for it in read if it is not None)
    total = await _count(session, "count_dispatches", *fits)
    return page_of(items, total, query, damaged=len(found) - len(items))


async def _list_keyed(session: SqlSession, query: DispatchQuery, key: str) -> Page[RunDispatch]:
    """List the dispatch with a dedupe key, if it exists and matches; found by an index."""
    head = None if query.thread_id is None else await find_head(session, query.thread_id)
    row = None if head is None else await session.one("find_dedupe", head.no, key)
    items = () if row is None else (rows.unpack(row[0], rows.DISPATCH, "A dispatch"),)
    fits = tuple(it for it in items if query.status in (None, it.status))
    return page_of(fits[query.offset : query.offset + query.limit], len(fits), query)


async def list_tickets(session: SqlSession, statement: str, *args: object) -> tuple[Ticket, ...]:
    """List the tickets that a statement returns, in its order."""
    found = await session.all(statement, *args)
    return tuple(rows.unpack(row[0], rows.TICKET, "A ticket") for row in found)


async def list_readable_tickets(
    session: SqlSession, statement: str, *args: object
) -> tuple[Ticket, ...]:
    """List the tickets that a statement returns with their ids, without those that are damaged."""
    return select_readable(await session.all(statement, *args))


def select_readable(found: Sequence[Row]) -> tuple[Ticket, ...]:
    """Return the tickets of rows with their ids, without those that are damaged."""
    read = (rows.unpack_listed(row[0], rows.TICKET, f"Ticket '{row[1]}'") for row in found)
    return tuple(it for it in read if it is not None)


async def list_events(
    session: SqlSession, thread_id: str, after: int, limit: int
) -> tuple[LoggedEvent, ...]:
    """List events with a sequence number above `after`, at most `limit` of them.

    Raises:
        CursorExpired: Events after that number were purged.
    """
    head = await session.one("find_thread", thread_id)
    if head is None:
        return ()
    if 0 < after < head[4]:
        raise CursorExpired(thread_id=thread_id, purged_seq=head[4])
    found: list[LoggedEvent] = []
    places, seen = rows.all_places(head[0]), max(after, 0)
    while len(found) < limit:
        step = min(limit - len(found), STEP)
        commits = await session.all("list_commit_events", *places, seen, step)
        for seq, run_id, at, blob in commits:
            what = f"Events of thread '{thread_id}'"
            events = rows.unpack(blob, rows.EVENTS, what, seq, run_id, at)
            if seen == after and 0 < after < seq - len(events):
                # Not the next one: what is between was dropped with its days.
                raise CursorExpired(thread_id=thread_id, purged_seq=seq - len(events))
            found += [
                LoggedEvent(seq=index, run_id=run_id, event=event, created_at=at)
                for index, event in enumerate(events, seq - len(events) + 1)
                if index > seen
            ]
            seen = seq
        if len(commits) < step:
            await _check_end(session, thread_id, (after, seen), head)
            break
    return tuple(found[:limit]) if limit > 0 else ()


async def _check_end(session: SqlSession, thread_id: str, read: tuple[int, int], head: Row) -> None:
    """Check that the log is as long as its thread says, unless it was purged meanwhile.

    `read` are the cursor and the last event that was found after it.
    """
    (after, seen), latest, purged = read, head[3], head[4]
    if seen >= latest or purged >= latest:
        return
    now = await session.one("find_thread", thread_id)
    if now is None or now[4] != purged:
        return
    if seen == max(after, 0) and await has_dropped_days(session):
        if after > 0:
            raise CursorExpired(thread_id=thread_id, purged_seq=latest)
        return
    problem = f"the events end at {seen} instead of {latest}"
    raise CorruptRecord(what=f"The log of thread '{thread_id}'", problem=problem)


async def list_tool_records(session: SqlSession, run_id: str) -> tuple[ToolRecord, ...]:
    """List the newest journal entry of each call of a run, in the order of the calls."""
    row = await session.one("find_run", run_id)
    if row is None:
        return ()
    first = rows.place(row[1], row[2])
    _, last = rows.all_places(row[1])
    newest: dict[tuple[int, str], ToolRecord] = {}
    for found in await session.all("list_commit_tools", first, last):
        for record in rows.unpack(found[0], rows.TOOLS, f"Tool journal of run '{run_id}'"):
            if record.run_id == run_id:
                newest[record.step, record.call_id] = record
    return tuple(newest.values())


async def _records(
    session: SqlSession, thread_id: str, thread_no: int, first: int, last: int, order: Order
) -> AsyncIterator[MessageRecord]:
    """Yield the messages between two numbers; only a few are in memory at once."""
    starts = range(first, last + 1, MESSAGE_STEP)
    for start in starts if order is Order.ASC else reversed(starts):
        end = min(start + MESSAGE_STEP - 1, last)
        found = await session.all(
            "list_messages", rows.place(thread_no, start), rows.place(thread_no, end)
        )
        _check_count(thread_id, len(found), end - start + 1)
        for place, at, body in found if order is Order.ASC else reversed(found):
            yield record_of(
                _message(thread_id, place, at, body),
                thread_id=thread_id,
                seq=rows.number_at(place),
                created_at=at,
            )


def _window(query: MessageQuery, first: int, last: int) -> tuple[int, int]:
    """Return the first and the last number of a page without a filter."""
    if query.order is Order.DESC:
        high = last - query.offset
        return max(first, high - query.limit + 1), high
    low = first + query.offset
    return low, min(last, low + query.limit - 1)


def _fits(record: MessageRecord, query: MessageQuery) -> bool:
    if query.visibility is not VisibilityFilter.ANY:
        wants_internal = query.visibility is VisibilityFilter.INTERNAL
        if wants_internal is not (record.message.visibility is Visibility.INTERNAL):
            return False
    return query.run_id is None or record.produced_by_run_id == query.run_id


def _message(thread_id: str, place: int, at: int, body: bytes) -> Message:
    what = f"Message {rows.number_at(place)} of thread '{thread_id}'"
    return rows.unpack(body, rows.MESSAGE, what, at)


def _check_count(thread_id: str, found: int, expected: int) -> None:
    if found != expected:
        problem = f"it has {found} of {expected} messages"
        raise CorruptRecord(what=f"Thread '{thread_id}'", problem=problem)


async def _count(session: SqlSession, statement: str, *args: object) -> int:
    row = await session.one(statement, *args)
    assert row is not None
    count: int = row[0]
    return count
