"""The outbox of the memory store: one method per promise of the port."""

from collections.abc import Iterator, Sequence
from itertools import islice

from awaken.contracts.clock import Clock
from awaken.contracts.storage.store import NO_PAUSE_MAX, OutboxEntry

from .tables import Tables


class MemoryOutbox:
    """The part of the store that keeps what commits ask for outside of their threads."""

    clock: Clock
    _tables: Tables

    async def list_outbox(
        self, *, limit: int = 100, pause_max_ms: int = NO_PAUSE_MAX
    ) -> tuple[OutboxEntry, ...]:
        """Return what is due to be sent, in the order it was committed."""
        now = self.clock.now_ms()
        last = now + pause_max_ms
        waiting = (it for _, it in self._tables.outbox.values() if not it.is_dead)
        return _first((it for it in waiting if not now < it.due_at <= last), limit)

    async def list_dead_outbox(
        self, thread_id: str | None = None, *, limit: int = 100
    ) -> tuple[OutboxEntry, ...]:
        """Return what was given up, of one thread or of all, in the order it was committed."""
        kept = self._tables.outbox.values()
        dead = (it for owner, it in kept if it.is_dead and thread_id in (None, owner))
        return _first(dead, limit)

    async def save_outbox(self, entry: OutboxEntry) -> bool:
        """Keep what became of an attempt; False when the entry is not there any more."""
        known = self._tables.outbox.get(entry.entry_id)
        if known is None:
            return False
        self._tables.outbox[entry.entry_id] = (known[0], entry)
        return True

    async def delete_outbox(self, entry_ids: Sequence[str]) -> None:
        """Forget entries that were sent; unknown ones are ignored."""
        for entry_id in entry_ids:
            self._tables.outbox.pop(entry_id, None)


def _first(entries: Iterator[OutboxEntry], limit: int) -> tuple[OutboxEntry, ...]:
    return tuple(islice(entries, max(limit, 0)))
