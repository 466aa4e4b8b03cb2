"""The threads below a thread."""

from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import LIMIT_MAX, ThreadQuery, at_cursor
from awaken.contracts.storage.store import Store

ROUNDS = 10
"""How often to read a list of several pages that keeps changing."""


async def threads_below(store: Store, thread_id: str) -> tuple[Thread, ...]:
    """Return the child threads of a thread, including those that are written to meanwhile."""
    found: dict[str, Thread] = {}
    for _ in range(ROUNDS):
        known = len(found)
        query: ThreadQuery | None = ThreadQuery(parent_id=thread_id, limit=LIMIT_MAX)
        while query is not None:
            page = await store.list_threads(query)
            found |= {thread.id: thread for thread in page.items}
            query = at_cursor(query, page.next_cursor) if page.next_cursor else None
        # A write moves a thread to the front, where a reader of several pages misses it.
        if len(found) in (known, page.total):
            break
    return tuple(found.values())
