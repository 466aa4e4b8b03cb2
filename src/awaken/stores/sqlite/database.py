"""The SQLite database: one writer thread, and readers that never wait for it."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from awaken.contracts.errors import InvalidInput, StoreUnavailable
from awaken.contracts.mailbox import LeaseKeeper
from awaken.stores.sql.session import Moment, Work

from .clock import moment
from .connection import FAULTS, SqliteSession, connected, named_error
from .keeper import SqliteLeaseKeeper
from .writer import Writer, driven

T = TypeVar("T")

READERS = 2


class SqliteDatabase:
    """A `Database` in one file."""

    def __init__(self, path: str | Path, now: Callable[[], Moment] = moment) -> None:
        self._path = Path(path)
        self._now = now
        self.name = f"sqlite:///{self._path}"
        if not str(path).strip() or self._path.is_dir():
            raise InvalidInput(what=f"store '{self.name}'", problem="name a file, not a folder")
        self._writer: Writer | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []

    async def open(self) -> None:
        """Open the file and bring its schema up to date; calling it twice is harmless.

        Raises:
            StoreTooNew: A newer version of awaken wrote the file.
            StoreCorrupt: The file is damaged, or no SQLite file.
            StoreUnavailable: The file cannot be opened.
        """
        if self._writer is not None:
            return
        self._writer = Writer(self._path, self.name, self._now)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="awaken reader")
        try:
            # Nothing to do but to open the file, which tells whether it is good.
            await self.write(_nothing)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what was handed over, then close every connection."""
        writer, self._writer = self._writer, None
        readers, self._readers = self._readers, None
        if writer is not None:
            await asyncio.to_thread(writer.close)
        if readers is not None:
            await asyncio.to_thread(readers.shutdown)
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._local = threading.local()

    async def read(self, work: Work[T]) -> T:
        """Run work on one consistent view."""
        if self._readers is None:
            raise StoreUnavailable(store=self.name, problem="it is not open")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._read, work)

    async def write(self, work: Work[T]) -> T:
        """Run work and make it durable before returning; an exception undoes all of it."""
        if self._writer is None:
            raise StoreUnavailable(store=self.name, problem="it is not open")
        return await self._writer.submit(work)

    def lease_keeper(self) -> LeaseKeeper:
        """A new keeper with its own connection."""
        return SqliteLeaseKeeper(self._path, self.name, self._now)

    def _read(self, work: Work[T]) -> T:
        connection = self._reader()
        try:
            connection.execute("BEGIN")
            try:
                return driven(work(SqliteSession(connection, self._now)))
            finally:
                connection.execute("COMMIT")
        except FAULTS as error:
            self._forget(connection)
            raise named_error(error, self.name) from error

    def _reader(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = connected(self._path, self.name, is_writer=False)
            self._local.connection = connection
            self._connections.append(connection)
        return connection

    def _forget(self, connection: sqlite3.Connection) -> None:
        """Open a new connection next time: this one has seen an error."""
        self._local.connection = None
        self._connections.remove(connection)
        connection.close()


async def _nothing(_session: object) -> None:
    return None
