"""The SQLite database: one writer thread, and reader threads that never wait for it."""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from awaken.contracts.errors import InvalidInput, StoreUnavailable
from awaken.contracts.storage.mailbox import LeaseKeeper
from awaken.stores.sql.session import Moment, Work

from .clock import moment
from .connection import empty_log
from .keeper import SqliteLeaseKeeper
from .readers import Readers
from .writer import SqliteWriter

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
        self._writer: SqliteWriter | None = None
        self._readers: Readers | None = None

    def since_write_ms(self) -> float:
        """Return how long ago the latest write became durable; infinite before the first."""
        return math.inf if self._writer is None else self._now().lease_ms - self._writer.written_at

    async def open(self) -> None:
        """Open the file and bring its schema up to date; calling it twice is harmless.

        Raises:
            StoreTooNew: A newer version of awaken wrote the file.
            StoreCorrupt: The file is damaged, or not a SQLite file.
            StoreUnavailable: The file cannot be opened.
        """
        if self._writer is not None:
            return
        self._writer = SqliteWriter(self._path, self.name, self._now)
        self._readers = Readers(self._path, self.name, self._now, READERS)
        try:
            # An empty job opens the file, which fails if the file is unusable.
            await self.write(_do_nothing)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish all queued jobs, then close every connection; the log is merged into the file.

        The writer closes last and alone: SQLite moves its log into the file only when the last
        connection closes, and of two that close at the same moment neither is the last.
        """
        writer, self._writer = self._writer, None
        readers, self._readers = self._readers, None
        if writer is not None:
            writer.stop()
        if readers is not None:
            await asyncio.to_thread(readers.close)
        if writer is not None:
            await asyncio.to_thread(writer.close)

    async def read(self, work: Work[T]) -> T:
        """Run work on one consistent view."""
        if self._readers is None:
            raise StoreUnavailable(store=self.name, problem="it is not open")
        return await self._readers.submit(work)

    read_row = read

    async def write(self, work: Work[T]) -> T:
        """Run work and make it durable before returning; an exception undoes all of it."""
        if self._writer is None:
            raise StoreUnavailable(store=self.name, problem="it is not open")
        return await self._writer.submit(work)

    write_claims = write

    write_row = write

    async def write_thread(self, work: Work[T], thread_id: str, *, is_adding: bool = False) -> T:
        """Run work on one thread, as `write` does: nothing is gained by knowing which."""
        if self._writer is None:
            raise StoreUnavailable(store=self.name, problem="it is not open")
        return await self._writer.submit(work)

    async def checkpoint(self) -> bool:
        """Move the whole log into the file and empty it; False if a reader still needs it.

        Afterwards no bytes of deleted rows are left in the log.
        """
        return await asyncio.to_thread(empty_log, self._path, self.name)

    def find_shown(self, thread_id: str) -> Any:
        """Return what a commit has shown of its thread, if nothing newer has been written."""
        return None if self._writer is None else self._writer.find_shown(thread_id)

    def lease_keeper(self) -> LeaseKeeper:
        """Return a new lease keeper with its own connection."""
        return SqliteLeaseKeeper(self._path, self.name, self._now)


async def _do_nothing(_session: object) -> None:
    return None
