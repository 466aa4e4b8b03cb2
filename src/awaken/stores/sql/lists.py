"""Lists of runs and tickets by keys; `listed_rows.py` has their statements."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from awaken.contracts.lifecycle import NATURAL_END, RunStatus, TicketStatus
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunKind, RunRecord
from awaken.contracts.storage.keysets import Walk, make_page, plan_walk, run_key, ticket_key
from awaken.contracts.storage.queries import (
    KeysetQuery,
    ListKey,
    Order,
    Page,
    RunQuery,
    TicketQuery,
)
from awaken.contracts.suspension.tickets import Ticket

from . import rows
from .listed_rows import LOOKED_AT_MAX
from .session import SqlSession

T = TypeVar("T")

_LAST = "\U0010ffff"
"""Behind every id; behind every text that begins with a prefix, if it follows the prefix."""


class _Source(Record, frozen=True, kw_only=True):
    """Where the rows of a listing come from."""

    name: str
    """The index of `listed_rows.py` with its table."""
    values: tuple[int | str, ...] = ()
    filters: tuple[int | str | None, ...] = ()
    is_filtered: bool = False
    """Whether rows of the index may not fit."""


async def list_runs(session: SqlSession, query: RunQuery) -> Page[RunRecord]:
    """List matching runs by creation time, ties by id."""
    source = await _choose_run_index(session, query)
    if source is None:
        return make_page((), query, None, run_key, 0 if query.with_total else None)

    def decode(row: Sequence[Any]) -> RunRecord | None:
        return rows.unpack_listed(row[0], rows.RUN, f"Run '{row[2]}'")

    return await _read_page(session, source, query, decode, run_key)


async def list_tickets(session: SqlSession, query: TicketQuery) -> Page[Ticket]:
    """List matching tickets by creation time, ties by id."""
    values = () if query.thread_id is None else (query.thread_id,)
    status = None if query.status is None else query.status.value
    # Few tickets are closed without a decision, and no list asks for them alone.
    index = status if status in (TicketStatus.OPEN, TicketStatus.DECIDED) else "created"
    others = (query.run_id, query.tenant_id, None if status == index else status)
    source = _Source(
        name="tickets_thread" if values else f"tickets_{index}",
        values=values,
        filters=(status, query.run_id, query.tenant_id),
        is_filtered=any(it is not None for it in others) and not values,
    )

    def decode(row: Sequence[Any]) -> Ticket | None:
        return rows.unpack_listed(row[0], rows.TICKET, f"Ticket '{row[2]}'")

    return await _read_page(session, source, query, decode, ticket_key)


async def _read_page(
    session: SqlSession,
    source: _Source,
    query: KeysetQuery,
    decode: Callable[[Sequence[Any]], T | None],
    key_of: Callable[[T], ListKey],
) -> Page[T]:
    walk, looked_at = plan_walk(query), None
    if source.is_filtered and not query.offset:
        walk, looked_at = await _shorten_walk(session, source, walk)
    found = await session.all(
        f"list_{source.name}_{walk.order}",
        *walk.low,
        *walk.high,
        *source.values,
        *source.filters,
        query.limit + 1,
        query.offset,
    )
    shown = found[: query.limit]
    items = [it for it in map(decode, shown) if it is not None]
    more = (shown[-1][1], shown[-1][2]) if len(found) > query.limit else looked_at
    total = None
    if query.with_total:
        whole = plan_walk(msgspec.structs.replace(query, after=None, before=None))
        bounds = (*whole.low, *whole.high)
        row = await session.one(f"count_{source.name}", *bounds, *source.values, *source.filters)
        assert row is not None
        total = row[0]
    return make_page(items, query, more, key_of, total, damaged=len(shown) - len(items))


async def _shorten_walk(
    session: SqlSession, source: _Source, walk: Walk
) -> tuple[Walk, ListKey | None]:
    """Let a walk end behind the rows that one page may look at; returns where the next begins.

    That is between two times, so that a cursor does not name a row that its reader may not see.
    """
    bounds = (*walk.low, *walk.high)
    behind = await session.one(f"mark_{source.name}_{walk.order}", *bounds, *source.values)
    if behind is None:
        return walk, None
    is_up = walk.order is Order.ASC
    begin, side = (walk.low, "high") if is_up else (walk.high, "low")
    end: ListKey = (behind[0], "" if is_up else _LAST)
    if behind[0] == begin[0]:
        # All these rows are of one time: only an id can be between them.
        end = (behind[0], behind[1])
    return msgspec.structs.replace(walk, **{side: end}), end


async def _choose_run_index(session: SqlSession, query: RunQuery) -> _Source | None:
    """Choose the index that names the fewest rows; None if the thread does not exist."""
    prefix = (None, None) if query.q is None else (query.q, query.q + _LAST)
    kinds = "|".join(("", *query.kinds, "")) if query.kinds else None
    status = None if query.status is None else query.status.value
    filters = {
        "status": status,
        "kind": kinds,
        "ended": query.ended,
        "agent": query.agent_id,
        "publication": query.publication,
        "tenant": query.tenant_id,
    }
    index: str = "recent"
    values: tuple[Any, ...] = ()
    if query.thread_id is not None:
        row = await session.one("find_thread", query.thread_id)
        if row is None:
            return None
        index, values = "thread", rows.all_places(row[0])
    elif query.q is not None and await _is_rare(session, prefix):
        index, values = "named", prefix
    elif query.status not in (None, RunStatus.DONE):
        index, values = "open", (status,)
    elif query.ended not in (None, NATURAL_END):
        index, values = "ended", (query.ended,)
    elif len(query.kinds) == 1 and query.kinds[0] is not RunKind.CHAT:
        index, values = "kind", (query.kinds[0].value,)
    else:
        for name in ("tenant", "publication", "agent"):
            if filters[name] is not None:
                index, values = name, (filters[name],)
                break
    others = [value for name, value in filters.items() if name != index] + [query.q]
    is_own_key = index in ("thread", "named")
    return _Source(
        name=f"runs_{index}",
        values=values,
        filters=(*filters.values(), *prefix),
        is_filtered=not is_own_key and any(it is not None for it in others),
    )


async def _is_rare(session: SqlSession, prefix: tuple[Any, Any]) -> bool:
    """Whether so few runs and threads have a prefix that all of them can be sorted."""
    row = await session.one("count_prefix", *prefix, LOOKED_AT_MAX)
    return row is not None and row[0] + row[1] < LOOKED_AT_MAX
