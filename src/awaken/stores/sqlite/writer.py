"""The writer thread: takes jobs as they come and lets those that wait together share one fsync."""

import asyncio
import math
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from awaken.contracts.errors import InvalidRecord, StorageError, StoreUnavailable
from awaken.stores.sql.session import Moment, Session

from .clock import moment
from .connection import FAULTS, SqliteSession, connected, named_error, prepare
from .jobs import Job, driven, settle

T = TypeVar("T")

BATCH_MAX = 256

OWN_FAULTS = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
)
"""Errors of what one job wants to write; the file and the other jobs of its batch are fine."""


class Writer:
    """Owns the only connection of this process that writes.

    A connection on which an I/O error happened is never used again: what the operating system
    did with its pages is unknown. The next batch opens a new one.
    """

    def __init__(self, path: Path, store: str, now: Callable[[], Moment] = moment) -> None:
        self._path = path
        self._store = store
        self._now = now
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        """What waits; None is the last thing that ever comes."""
        self._is_closing = False
        self.written_at = -math.inf
        """When the latest batch became durable, by the clock of leases."""
        self._connection: sqlite3.Connection | None = None
        self._thread = threading.Thread(
            target=self._serve, name=f"awaken writer {store}", daemon=True
        )
        self._thread.start()

    def submit(self, work: Callable[[Session], Awaitable[T]]) -> "asyncio.Future[T]":
        """Hand over a job.

        Raises:
            StoreUnavailable: The store is closed.
        """
        if self._is_closing:
            raise StoreUnavailable(store=self._store, problem="it is closed")
        job = Job(work, asyncio.get_running_loop())
        self._jobs.put(job)
        return job.future

    def close(self) -> None:
        """Finish what was handed over, then end the thread. Blocks."""
        self._is_closing = True
        self._jobs.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while batch := self._next_batch():
            try:
                self._write(batch)
            except BaseException as error:  # noqa: BLE001 - whoever waits must be told
                for job in batch:
                    job.error = job.error or error
            settle(batch)
        self._drop_connection()

    def _next_batch(self) -> list[Job]:
        """Wait for a job and take along what has come meanwhile; empty means the end."""
        batch: list[Job] = []
        job = self._jobs.get()
        while job is not None:
            batch.append(job)
            if len(batch) == BATCH_MAX:
                return batch
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return batch
        if batch:
            self._jobs.put(None)
        return batch

    def _write(self, batch: list[Job]) -> None:
        """Run a batch in one transaction; a job that fails is undone alone."""
        try:
            connection = self._opened()
            session = SqliteSession(connection, self._now)
            connection.execute("BEGIN IMMEDIATE")
            changes = connection.total_changes
            for job in batch:
                _run(connection, session, job, is_alone=len(batch) == 1)
            if connection.in_transaction:
                connection.execute("COMMIT")
                if connection.total_changes != changes:
                    self.written_at = self._now().lease_ms
        except FAULTS as error:
            self._drop_connection()
            failure = named_error(error, self._store)
            for job in batch:
                job.error = failure
        except StorageError as error:
            for job in batch:
                job.error = error

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = connected(self._path, self._store, is_writer=True)
            try:
                prepare(connection, self._store)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _run(connection: sqlite3.Connection, session: Session, job: Job, *, is_alone: bool) -> None:
    """Run a job; one that fails is undone, together with the transaction if that is all its own."""
    if not is_alone:
        connection.execute("SAVEPOINT job")
    try:
        job.result = driven(job.work(session))
    except OWN_FAULTS as error:
        job.error = InvalidRecord(what="What was to be written", problem=str(error))
    except FAULTS:
        raise
    except BaseException as error:  # noqa: BLE001 - it belongs to the job, not to the batch
        job.error = error
    if job.error is not None:
        connection.execute("ROLLBACK" if is_alone else "ROLLBACK TO job")
    if not is_alone:
        connection.execute("RELEASE job")
