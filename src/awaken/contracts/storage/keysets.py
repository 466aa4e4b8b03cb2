"""Pages by keys: which rows a page holds, and the cursors to its neighbours.

A store walks from a key in one direction and reports where the next walk begins; this module makes
the page of it, so that every store has the same cursors.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.suspension.tickets import Ticket

from .queries import (
    K,
    KeysetQuery,
    ListKey,
    Order,
    Page,
    RunQuery,
    TicketQuery,
    decode_cursor,
    encode_cursor,
)

T = TypeVar("T")

TIME_MAX = 2**63 - 1
_FIRST: ListKey = (-TIME_MAX, "")
_END: ListKey = (TIME_MAX, "")


class Walk(Record, frozen=True, kw_only=True):
    """The rows that a query is about, between two keys that are not among them."""

    low: ListKey
    high: ListKey
    order: Order
    """The direction of the walk: for a page before a key it is the reverse of the listing's."""


def plan_walk(query: KeysetQuery) -> Walk:
    """Return where a store has to walk for a query."""
    low, high = _FIRST, _END
    if isinstance(query, RunQuery):
        # No id is blank: every row of that time follows the key.
        low = low if query.since is None else (_bound_time(query.since), "")
        high = high if query.until is None else (_bound_time(query.until), "")
    for key, is_low in (
        (query.after, query.order is Order.ASC),
        (query.before, query.order is Order.DESC),
    ):
        if key is not None and is_low:
            low = max(low, (_bound_time(key[0]), key[1]))
        elif key is not None:
            high = min(high, (_bound_time(key[0]), key[1]))
    return Walk(low=low, high=high, order=_walk_order(query))


def make_page(
    found: Sequence[T],
    query: KeysetQuery,
    more: ListKey | None,
    key_of: Callable[[T], ListKey],
    total: int | None = None,
    *,
    damaged: int = 0,
) -> Page[T]:
    """Make the page of the rows that a walk found, in its order, without those that are damaged.

    `more` is the last key that the walk has looked at, if rows may follow it.
    """
    items = tuple(found)
    following = preceding = None
    if query.before is not None:
        items = items[::-1]
        preceding = more and _cursor_at(query, before=more)
        # Without rows before the key, the listing begins there.
        following = _cursor_at(query, after=key_of(items[-1]) if items else None)
    else:
        following = more and _cursor_at(query, after=more)
        if items and (query.after is not None or query.offset):
            preceding = _cursor_at(query, before=key_of(items[0]))
    return Page(
        items=items,
        total=total,
        next_cursor=following,
        prev_cursor=preceding,
        damaged=damaged,
    )


def list_rows(rows: Sequence[T], query: KeysetQuery, key_of: Callable[[T], ListKey]) -> Page[T]:
    """Make a page of all rows that fit a query's filters, in any order: for a store in memory."""
    walk = plan_walk(query)
    ordered = sorted(rows, key=key_of, reverse=walk.order is Order.DESC)
    found = [row for row in ordered if walk.low < key_of(row) < walk.high]
    found = found[query.offset : query.offset + query.limit + 1]
    shown = found[: query.limit]
    more = key_of(shown[-1]) if len(found) > query.limit else None
    return make_page(shown, query, more, key_of, _count(ordered, query, key_of))


def rename_cursors(page: Page[T], query: K, rename: Callable[[str], str]) -> Page[T]:
    """Return the page with cursors for another form of its query, whose ids `rename` makes."""
    moved: dict[str, str | None] = {}
    for name in ("next_cursor", "prev_cursor"):
        cursor = getattr(page, name)
        moved[name] = None if cursor is None else _rename_cursor(cursor, query, rename)
    return msgspec.structs.replace(page, **moved)


def rename_keys(query: K, rename: Callable[[str], str]) -> K:
    """Return the query with the ids of its keys renamed."""
    keys = {"after": query.after, "before": query.before}
    return msgspec.structs.replace(
        query, **{name: key and (key[0], rename(key[1])) for name, key in keys.items()}
    )


def key_at(cursor: str) -> ListKey | None:
    """Return the key behind which the page of a cursor begins.

    Raises:
        CursorInvalid: The cursor is malformed.
    """
    made = decode_cursor(cursor)
    return made.after if isinstance(made, RunQuery | TicketQuery) else None


def run_key(run: RunRecord) -> ListKey:
    """Return the place of a run in listings."""
    return run.created_at, run.run_id


def ticket_key(ticket: Ticket) -> ListKey:
    """Return the place of a ticket in listings."""
    return ticket.created_at, ticket.ticket_id


def _walk_order(query: KeysetQuery) -> Order:
    if query.before is None:
        return query.order
    return Order.DESC if query.order is Order.ASC else Order.ASC


def _count(rows: Sequence[T], query: KeysetQuery, key_of: Callable[[T], ListKey]) -> int | None:
    """Count the rows of all pages, whatever page the query is at."""
    if not query.with_total:
        return None
    walk = plan_walk(msgspec.structs.replace(query, after=None, before=None))
    return sum(walk.low < key_of(row) < walk.high for row in rows)


def _cursor_at(query: KeysetQuery, **keys: Any) -> str:
    place = {"offset": 0, "after": None, "before": None, "with_total": False} | keys
    return encode_cursor(msgspec.structs.replace(query, **place))


def _rename_cursor(cursor: str, query: K, rename: Callable[[str], str]) -> str:
    made = decode_cursor(cursor)
    assert type(made) is type(query)
    renamed = rename_keys(made, rename)
    return _cursor_at(query, after=renamed.after, before=renamed.before)


def _bound_time(at: int) -> int:
    """Keep a time within what a database can compare; cursors come back from clients."""
    return min(max(at, -TIME_MAX), TIME_MAX)
