"""The outbox of a SQL store: one method for each method of the port."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

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
            return await _list_readable(
                lambda most: session.all("list_due_outbox", now, most, last), limit
            )

        return await self._database.read_row(work)

    async def find_outbox(self, entry_id: str) -> OutboxEntry | None:
        """Return an entry, due or not, dead or not."""

        async def work(session: SqlSession) -> tuple[OutboxEntry, ...]:
            found = await session.all("find_outbox", entry_id)
            return tuple(rows.unpack(row[0], rows.OUTBOX, _name_entry(row)) for row in found)

        return next(iter(await self._database.read_row(work)), None)

    async def list_dead_outbox(
        self, thread_id: str | None = None, *, limit: int = 100
    ) -> tuple[OutboxEntry, ...]:
        """Return the dead entries of one thread or of all, in the order of their commits."""

        async def work(session: SqlSession) -> tuple[OutboxEntry, ...]:
            return await _list_readable(
                lambda most: session.all("list_dead_outbox", thread_id, most), limit
            )

        return await self._database.read_row(work)

    async def save_outbox(self, entry: OutboxEntry) -> bool:
        """Store the result of an attempt; returns False if the entry no longer exists."""

        async def work(session: SqlSession) -> bool:
            return await save_entry(session, entry)

        return await self._database.write(work)

    async def delete_outbox(self, entry_ids: Sequence[str]) -> None:
        """Delete entries that were sent; unknown ids are ignored."""

        async def work(session: SqlSession) -> None:
            await session.run_many("delete_outbox", [(entry_id,) for entry_id in entry_ids])

        await self._database.write(work)


async def add_outbox(session: SqlSession, thread_no: int, entries: Iterable[OutboxEntry]) -> None:
    """Add the outbox entries of a commit; an entry that exists is not changed."""
    added = [
        (entry.entry_id, thread_no, entry.due_at, int(entry.is_dead), rows.pack(entry))
        for entry in entries
    ]
    await session.run_many("add_outbox", added)


async def save_entry(session: SqlSession, entry: OutboxEntry) -> bool:
    """Replace an outbox entry; returns False if it no longer exists."""
    kept = (entry.due_at, int(entry.is_dead), rows.pack(entry))
    return await session.run("save_outbox", entry.entry_id, *kept) > 0


async def _list_readable(
    find: Callable[[int], Awaitable[Sequence[Row]]], limit: int
) -> tuple[OutboxEntry, ...]:
    """List at most so many entries; damaged ones stay, and must not hide those behind them."""
    wanted = most = max(limit, 0)
    while True:
        found = await find(wanted)
        # The log names a damaged entry, so that an operator can delete it.
        entries = [rows.unpack_listed(row[0], rows.OUTBOX, _name_entry(row)) for row in found]
        readable = tuple(it for it in entries if it is not None)
        if len(readable) >= most or len(found) < wanted:
            return readable[:most]
        wanted *= 2


def _name_entry(row: Row) -> str:
    return f"Outbox entry '{row[1]}'"
