"""Named statements on one Postgres connection."""

from collections.abc import Iterable, Sequence
from typing import Any

from awaken.stores.sql.arguments import check_arguments
from awaken.stores.sql.session import Moment, Row, Show
from awaken.stores.sql.statements import statements

from .connection import Connection

STATEMENTS = statements(
    for_update="FOR UPDATE",
    for_share="FOR KEY SHARE",
    skip_locked="FOR UPDATE SKIP LOCKED",
)
NOW = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
"""The server's clock in milliseconds: all processes that share the database use it."""


class PostgresSession:
    """A `SqlSession` inside a transaction that the caller begins and ends."""

    __slots__ = ("_connection", "_now", "has_written")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._now: Moment | None = None
        self.has_written = False

    async def all(self, statement: str, *args: Any) -> Sequence[Row]:
        """Run a query and return every row."""
        check_arguments(args)
        rows: Sequence[Row] = await self._connection.fetch(STATEMENTS[statement], *args)
        return rows

    async def one(self, statement: str, *args: Any) -> Row | None:
        """Run a query and return its first row, or None."""
        check_arguments(args)
        row: Row | None = await self._connection.fetchrow(STATEMENTS[statement], *args)
        return row

    async def run(self, statement: str, *args: Any) -> int:
        """Run a statement and return how many rows it changed."""
        check_arguments(args)
        self.has_written = True
        status = await self._connection.execute(STATEMENTS[statement], *args)
        return int(status.rpartition(" ")[2])

    async def run_many(self, statement: str, rows: Iterable[Row]) -> None:
        """Run a statement once per row, all in one round trip."""
        found = list(rows)
        for row in found:
            check_arguments(row)
        self.has_written = True
        await self._connection.executemany(STATEMENTS[statement], found)

    async def now(self) -> Moment:
        """Return the server's clock as of the transaction's first call."""
        if self._now is None:
            now = await self._connection.fetchval(f"SELECT {NOW}")
            self._now = Moment(wall_ms=now, lease_ms=now)
        return self._now

    def recall_head(self, thread_id: str) -> None:
        """Return None: other processes may have written since, and only the row can tell."""

    def remember_head(self, thread_id: str, head: Any, show: Show | None) -> None:
        """Keep nothing."""
