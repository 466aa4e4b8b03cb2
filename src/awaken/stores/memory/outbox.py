"""The outbox of the memory store: one method for each method of the port."""

from collections.abc import Iterator, Sequence
from itertools import islice

from awaken.contracts.clock import Clock
from awaken.contracts.storage.store import NO_PAUSE_MAX, OutboxEntry

from .tables import Tables


class MemoryOutbox:
    """The part of the store that keeps the commands of commits for other threads and systems."""

    clock: Clock
    _tables: Tables

    async def list_outbox(
        self, *, limit: int = 100, pause_max_ms: int = NO_PAUSE_MAX
    ) -> tuple[OutboxEntry, ...]:
        """Return the entries that are due, in the order of their commits."""
        now = self.clock.now_ms()
        last = now + pause_max_ms
        waiting = (it for _, it in self._tables.outbox.values() if not it.is_dead)
        return _first((it for it in waiting if not now < it.due_at <= last), limit)

    async def find_outbox(self, entry_id: str) -> OutboxEntry | None:
        """Return an entry, due or not, dead or not."""
        known = self._tables.outbox.get(entry_id)
        return None if known is None else known[1]

    async def list_dead_outbox(
        self, thread_id: str | None = None, *, limit: int = 100
    ) -> tuple[OutboxEntry, ...]:
        """Return the dead entries of one thread or of all, in the order of their commits."""
        kept = self._tables.outbox.values()
        dead = (it for owner, it in kept if it.is_dead and thread_id in (None, owner))
        return _first(dead, limit)

    async def save_outbox(self, entry: OutboxEntry) -> bool:
        """Store the result of an attempt; returns False if the entry no longer exists."""
        known = self._tables.outbox.get(entry.entry_id)
        if known is None:
            return False
        self._tables.outbox[entry.entry_id] = (known[0], entry)
        return True

    async def delete_outbox(self, entry_ids: Sequence[str]) -> None:
        """Delete entries that were sent; unknown ids are ignored."""
        for entry_id in entry_ids:
            self._tables.outbox.pop(entry_id, None)


def _first(entries: Iterator[OutboxEntry], limit: int) -> tuple[OutboxEntry, ...]:
    return tuple(islice(entries, max(limit, 0)))
