"""Named statements on one Postgres connection."""

from collections.abc import Iterable, Sequence
from typing import Any

from awaken.stores.sql.arguments import check_arguments
from awaken.stores.sql.session import Moment, Reserved, Row, Show

from .composing import Batch
from .connection import Connection
from .known_threads import PostgresContext, decode_known, keep_executed


class PostgresSession:
    """A `SqlSession` inside a transaction that the caller begins and ends."""

    reserved: Reserved | None = None

    def __init__(self, connection: Connection, shared: PostgresContext | None = None) -> None:
        self._connection = connection
        shared = shared or PostgresContext()
        self._shared = shared
        self._texts = shared.texts
        self._clock = shared.clock
        self._known = shared.known
        self._now: Moment | None = None
        self._saved: dict[str, tuple[str, bytes]] = {}
        """Status and record of dispatches that are written, to be kept after the transaction."""
        self.has_written = False

    async def all(self, statement: str, *args: Any) -> Sequence[Row]:
        """Run a query and return every row."""
        check_arguments(args)
        if self._shared.watchers:
            self._shared.count("read")
        rows: Sequence[Row] = await self._connection.fetch(self._texts[statement], *args)
        return rows

    async def one(self, statement: str, *args: Any) -> Row | None:
        """Run a query and return its first row, or None."""
        check_arguments(args)
        if self._shared.watchers:
            self._shared.count("read")
        row: Row | None = await self._connection.fetchrow(self._texts[statement], *args)
        return row

    async def run(self, statement: str, *args: Any) -> int:
        """Run a statement and return how many rows it changed."""
        check_arguments(args)
        self.has_written = True
        if statement == "save_dispatch":
            batch = Batch()
            batch.add_update(statement, args)
            await self.write_batch(batch)
            return 1
        if self._shared.watchers:
            self._shared.count("write")
        status = await self._connection.execute(self._texts[statement], *args)
        return int(status.rpartition(" ")[2])

    async def run_many(self, statement: str, rows: Iterable[Row]) -> None:
        """Run a statement once per row, all in one round trip."""
        found = list(rows)
        for row in found:
            check_arguments(row)
        self.has_written = True
        if self._shared.watchers:
            self._shared.count("write")
        await self._connection.executemany(self._texts[statement], found)

    async def write_batch(self, batch: Batch) -> None:
        """Run the statements of a batch in one round trip."""
        self.has_written = True
        for row in batch.rows:
            if row.table == "dispatches" and row.key is not None:
                self._saved[row.key[1]] = (row.values["status"], row.values["record"])
        text, args = batch.compose(self._texts)
        if self._shared.watchers:
            self._shared.count("write")
        await self._connection.fetchrow(text, *args)

    async def now(self) -> Moment:
        """Return the server's clock as of the first call of this piece of work."""
        if self._now is None:
            now = self._clock.tell_ms()
            if now is None:
                now = await self._read_clock()
                self._clock.set(now)
            self._now = Moment(wall_ms=now, lease_ms=now)
        return self._now

    def set_clock(self, now_ms: int) -> None:
        """Take the time of the server that came with an answer."""
        self._clock.set(now_ms)

    async def _read_clock(self) -> int:
        row = await self.one("read_clock")
        assert row is not None
        now: int = row[0]
        return now

    def keep_known(self) -> None:
        """Keep what this transaction has written and the next commit asks for."""
        for dispatch_id, (status, record) in self._saved.items():
            keep_executed(self._known, dispatch_id, status, record)

    def recall_head(self, thread_id: str) -> None:
        """Return None: other processes may have written since, and only the row can tell."""

    def remember_head(self, thread_id: str, head: Any, show: Show | None) -> None:
        """Keep nothing: rows are kept, not heads."""


class SecondStatement(Exception):
    """A read needs more than one statement, so it needs a transaction."""


SETTLED = frozenset({"list_messages", "read_clock"})
"""Queries that need no common moment with others: rows that never change once they are there."""


class SingleRead(PostgresSession):
    """A session for a read of one statement, without a transaction."""

    def __init__(self, connection: Connection, shared: PostgresContext) -> None:
        super().__init__(connection, shared)
        self._is_asked = False
        self._state: Sequence[Row] | None = None
        """The state that was read together with its thread."""

    async def all(self, statement: str, *args: Any) -> Sequence[Row]:
        """Run a query and return every row."""
        if statement == "list_state" and self._state is not None:
            return self._state
        self._check_single(statement)
        return await super().all(statement, *args)

    async def one(self, statement: str, *args: Any) -> Row | None:
        """Run a query and return its first row, or None."""
        self._check_single(statement)
        row = await super().one(statement, *args)
        if statement == "find_thread_and_run":
            self._known.keep(args[0], None if row is None else decode_known(row))
            if row is not None:
                self._clock.set(row[23])
                self._state = list(zip(*(column or () for column in row[24:28]), strict=True))
        return row

    def _check_single(self, statement: str) -> None:
        if self._is_asked and statement not in SETTLED:
            raise SecondStatement(statement)
        self._is_asked = True
