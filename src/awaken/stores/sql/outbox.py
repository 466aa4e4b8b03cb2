"""The outbox of a SQL store: one method for each method of the port."""

from collections.abc import Iterable, Sequence

from awaken.contracts.storage.store import NO_PAUSE_MAX, OutboxEntry

from . import rows
from .session import Database, Row, SqlSession


class SqlOutbox:
    """The part of the store that keeps the commands of commits for other threads and systems.

    Columns only serve to find entries; the record of an entry is authoritative.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_outbox(
        self, *, limit: int = 100, pause_max_ms: int = NO_PAUSE_MAX
    ) -> tuple[OutboxEntry, ...]:
        """Return the entries that are due, in the order of their commits."""

        async def work(session: SqlSession) -> tuple[OutboxEntry, ...]:
            now = (await session.now()).wall_ms
            last = now + pause_max_ms
            return _entries(await session.all("list_due_outbox", now, max(limit, 0), last))

        return await self._database.read(work)

    async def list_dead_outbox(
        self, thread_id: str | None = None, *, limit: int = 100
    ) -> tuple[OutboxEntry, ...]:
        """Return the dead entries of one thread or of all, in the order of their commits."""

        async def work(session: SqlSession) -> tuple[OutboxEntry, ...]:
            return _entries(await session.all("list_dead_outbox", thread_id, max(limit, 0)))

        return await self._database.read(work)

    async def save_outbox(self, entry: OutboxEntry) -> bool:
        """Store the result of an attempt; returns False if the entry no longer exists."""
        kept = (entry.due_at, int(entry.is_dead), rows.pack(entry))

        async def work(session: SqlSession) -> bool:
            return await session.run("save_outbox", entry.entry_id, *kept) > 0

        return await self._database.write(work)

    async def delete_outbox(self, entry_ids: Sequence[str]) -> None:
        """Delete entries that were sent; unknown ids are ignored."""

        async def work(session: SqlSession) -> None:
            await session.run_many("delete_outbox", [(entry_id,) for entry_id in entry_ids])

        await self._database.write(work)


async def add_outbox(session: SqlSession, thread_no: int, entries: Iterable[OutboxEntry]) -> None:
    """Add the outbox entries of a commit; an entry that exists is not changed."""
    for entry in entries:
        kept = (entry.due_at, int(entry.is_dead), rows.pack(entry))
        await session.run("add_outbox", entry.entry_id, thread_no, *kept)


def _entries(found: Iterable[Row]) -> tuple[OutboxEntry, ...]:
    # The error names a damaged entry, so that an operator can delete it; none is skipped silently.
    return tuple(rows.unpack(row[0], rows.OUTBOX, f"Outbox entry '{row[1]}'") for row in found)
