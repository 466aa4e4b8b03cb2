"""The writer thread: runs jobs as they come; jobs that wait together share one fsync."""

import asyncio
import math
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from awaken.contracts.errors import InvalidRecord, StorageError, StoreUnavailable
from awaken.stores.sql.session import Moment, SqlSession

from .clock import moment
from .connection import BUSY_MS, FAULTS, SqliteSession, connect, prepare, translate_error
from .jobs import Job, run_without_suspending, settle
from .locks import NOTICE_MS, describe_holders, is_locked, log_locked

T = TypeVar("T")

BATCH_MAX = 256
"""How many jobs share a transaction, about: those that are handed over together stay together."""
GATHERING_TURNS = 16
"""For how many turns of its event loop a job waits for others, if each turn brings more."""

OWN_FAULTS = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
)
"""Errors that one job causes; the file and the other jobs of its batch are not affected."""


class SqliteWriter:
    """Owns the only connection of this process that writes.

    A connection is never used again after an I/O error: what the operating system did with its
    pages is unknown. The next batch opens a new connection.
    """

    def __init__(self, path: Path, store: str, now: Callable[[], Moment] = moment) -> None:
        self._path = path
        self._store = store
        self._now = now
        self._jobs: SimpleQueue[list[Job] | None] = SimpleQueue()
        """Waiting jobs, as they were handed over; None marks the end."""
        self._is_shared = False
        """Whether the latest batch had several jobs: then other tasks write as well."""
        self._gathered: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        """Jobs that are not handed over yet; each event loop has its own list."""
        self._is_closing = False
        self.written_at = -math.inf
        """When the latest batch became durable, by the clock of leases."""
        self._connection: sqlite3.Connection | None = None
        self._session: SqliteSession | None = None
        """The session of the connection, with the heads that it remembers."""
        self._mutex = threading.Lock()
        """Held while the connection is in use."""
        self._is_fenced = False
        """Whether a transaction is open, and no other connection can write until it commits."""
        self._thread = threading.Thread(
            target=self._serve, name=f"awaken writer {store}", daemon=True
        )
        self._thread.start()

    def submit(self, work: Callable[[SqlSession], Awaitable[T]]) -> Awaitable[T]:
        """Queue a job, and return what awaits its result.

        A job of a task that writes alone is handed over at once. If several tasks write, it waits
        until a turn of the event loop brings no more jobs. Otherwise this thread and the loop would
        take the interpreter's lock from each other with every statement, which costs more than the
        statements; and the jobs that come a moment later would need another fsync.

        Raises:
            StoreUnavailable: The store is closed.
        """
        if self._is_closing:
            raise StoreUnavailable(store=self._store, problem="it is closed")
        loop = asyncio.get_running_loop()
        job = Job(work, loop)
        gathered = self._gathered.get(loop) if self._gathered else None
        if gathered is not None:
            gathered.append(job)
        elif self._is_shared:
            self._gathered[loop] = [job]
            loop.call_soon(self._hand_over, loop, 0, GATHERING_TURNS)
        else:
            self._jobs.put([job])
        return job

    def _hand_over(self, loop: asyncio.AbstractEventLoop, known: int, turns: int) -> None:
        """Hand the gathered jobs over, unless the latest turn of the loop has brought more."""
        gathered = self._gathered.get(loop)
        if gathered is None:
            # Handed over when the store was closed.
            return
        if turns and known < len(gathered) < BATCH_MAX:
            loop.call_soon(self._hand_over, loop, len(gathered), turns - 1)
            return
        del self._gathered[loop]
        self._jobs.put(gathered)

    def find_shown(self, thread_id: str) -> Any:
        """Return what a commit has shown of its thread; see `Database.find_shown`.

        Safe in any thread. It is true of a moment during the call: of the one at which an open
        transaction is seen, which has verified the heads as it began, or of a verification by this
        thread while the connection is idle, which reads the shared memory of the log.
        """
        session = self._session
        if session is None:
            return None
        batch = session.batch
        if self._is_fenced:
            return session.find_shown(thread_id, batch - 1)
        if not self._mutex.acquire(blocking=False):
            # A commit is on its way to the disk: what the file has is not known yet.
            return None
        try:
            if session is not self._session:
                return None
            session.verify()
            return session.find_shown(thread_id, session.batch)
        except FAULTS:
            # The read that follows tells the caller what is wrong with the file.
            return None
        finally:
            self._mutex.release()

    def stop(self) -> None:
        """Refuse more jobs, and hand over those that are gathered; in the loop's thread."""
        self._is_closing = True
        while self._gathered:
            self._jobs.put(self._gathered.popitem()[1])

    def close(self) -> None:
        """Finish all queued jobs, then end the thread. Blocks."""
        self._is_closing = True
        self._jobs.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while batch := self._next_batch():
            self._is_shared = len(batch) > 1
            try:
                with self._mutex:
                    self._write(batch)
            except BaseException as error:  # noqa: BLE001 - passed to the waiting tasks
                for job in batch:
                    job.error = job.error or error
            settle(batch)
        with self._mutex:
            self._drop_connection()

    def _next_batch(self) -> list[Job]:
        """Wait for a job and take all others that wait too; an empty batch means the end."""
        batch: list[Job] = []
        jobs = self._jobs.get()
        while jobs is not None:
            batch += jobs
            if len(batch) >= BATCH_MAX:
                return batch
            try:
                jobs = self._jobs.get_nowait()
            except Empty:
                return batch
        if batch:
            self._jobs.put(None)
        return batch

    def _write(self, batch: list[Job]) -> None:
        """Run a batch in one transaction; only a job that fails is rolled back."""
        try:
            connection = self._ensure_connection()
            session = self._session = self._session or SqliteSession(connection, self._now)
            self._begin(connection, session)
            changes = connection.total_changes
            is_done = _run_all(connection, session, batch)
            self._is_fenced = False
            if not is_done:
                connection.execute("ROLLBACK")
                if len(batch) == 1:
                    return
                self._begin(connection, session)
                for job in batch:
                    _run_guarded(connection, session, job)
                self._is_fenced = False
            connection.execute("COMMIT")
            if connection.total_changes != changes:
                self.written_at = self._now().lease_ms
        except FAULTS as error:
            self._drop_connection()
            failure = self._translate(error)
            for job in batch:
                job.error = failure
        except StorageError as error:
            for job in batch:
                job.error = error
        finally:
            self._is_fenced = False

    def _begin(self, connection: sqlite3.Connection, session: SqliteSession) -> None:
        """Begin a transaction; logs which process holds the lock if it takes long."""
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_locked(error):
                raise
            log_locked(self._path, self._store, BUSY_MS)
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA busy_timeout = {NOTICE_MS}")
        # No other connection can write until this transaction ends.
        session.batch += 1
        session.verify()
        self._is_fenced = True

    def _translate(self, error: sqlite3.Error | UnicodeDecodeError) -> StorageError:
        if not is_locked(error):
            return translate_error(error, self._store)
        problem = f"it is locked by {describe_holders(self._path)}"
        return StoreUnavailable(store=self._store, problem=problem)

    def _ensure_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                self._connection = self._connect(NOTICE_MS)
            except StorageError as error:
                if not is_locked(error.__cause__):
                    raise
                log_locked(self._path, self._store, BUSY_MS)
                self._connection = self._connect_waiting()
        return self._connection

    def _connect_waiting(self) -> sqlite3.Connection:
        try:
            return self._connect(BUSY_MS)
        except StorageError as error:
            if isinstance(error.__cause__, sqlite3.Error) and is_locked(error.__cause__):
                raise self._translate(error.__cause__) from error
            raise

    def _connect(self, busy_ms: int) -> sqlite3.Connection:
        connection = connect(self._path, self._store, is_writer=True, busy_ms=busy_ms)
        try:
            prepare(connection, self._store)
            connection.execute(f"PRAGMA busy_timeout = {NOTICE_MS}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _drop_connection(self) -> None:
        connection, self._connection, self._session = self._connection, None, None
        if connection is not None:
            connection.close()


def _run_all(connection: sqlite3.Connection, session: SqliteSession, batch: list[Job]) -> bool:
    """Run jobs; returns False if one failed after it had written something.

    That is rare, so jobs have no savepoints, which would be two more statements for each.
    """
    for job in batch:
        changes = connection.total_changes
        _run(session, job)
        if job.error is not None and connection.total_changes != changes:
            return False
    return True


def _run_guarded(connection: sqlite3.Connection, session: SqliteSession, job: Job) -> None:
    """Run a job; if it fails, everything that it wrote is undone."""
    connection.execute("SAVEPOINT job")
    _run(session, job)
    if job.error is not None:
        connection.execute("ROLLBACK TO job")
    connection.execute("RELEASE job")


def _run(session: SqliteSession, job: Job) -> None:
    job.error = None
    try:
        job.outcome = run_without_suspending(job.work(session))
    except OWN_FAULTS as error:
        job.error = InvalidRecord(what="A record", problem=str(error))
    except FAULTS:
        raise
    except BaseException as error:  # noqa: BLE001 - the error of the job, not of the batch
        job.error = error
