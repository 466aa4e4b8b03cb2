"""Finds threads by text and by the thread that they were forked from.

The store has no index of titles, of custom fields or of forks. A search looks at a bounded number
of threads, the most recently changed first, and says at how many.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import LIMIT_MAX, ThreadQuery, at_cursor

from .demo_data import hide_demo_threads
from .view import TenantView

LOOKED_AT_MAX = 1_000
"""How many threads one search looks at."""


class FoundThreads(NamedTuple):
    """Threads that fit, the most recently changed first."""

    items: tuple[Thread, ...]
    looked_at: int
    is_complete: bool
    """Whether no other thread fits; False if there are more threads, or more of them fit."""


async def search_threads(
    view: TenantView, text: str | None, forked_from: str | None, limit: int
) -> FoundThreads:
    """Return threads whose title, id, owner or custom fields have a text, or forks of a thread."""
    fits = _make_test(text, forked_from)
    query = ThreadQuery(limit=LIMIT_MAX)
    found: list[Thread] = []
    looked_at = 0
    while True:
        page = await view.threads(query)
        looked_at += len(page.items)
        shown = await hide_demo_threads(view.engine.store, view.tenant_id, page)
        found += filter(fits, shown.items)
        is_enough = len(found) > limit or looked_at >= LOOKED_AT_MAX
        if page.next_cursor is None or is_enough:
            break
        query = at_cursor(query, page.next_cursor)
    is_complete = page.next_cursor is None and len(found) <= limit
    return FoundThreads(tuple(found[:limit]), looked_at, is_complete)


def _make_test(text: str | None, forked_from: str | None) -> Callable[[Thread], bool]:
    wanted = "" if text is None else text.casefold().strip()

    def fits(thread: Thread) -> bool:
        if forked_from is not None:
            origin = thread.forked_from
            if origin is None or origin.thread_id != forked_from:
                return False
        return not wanted or any(wanted in it.casefold() for it in _list_texts(thread))

    return fits


def _list_texts(thread: Thread) -> tuple[str, ...]:
    custom = thread.metadata.custom
    written = msgspec.json.encode(custom).decode() if custom else ""
    return thread.metadata.title or "", thread.id, thread.resource_id or "", written
