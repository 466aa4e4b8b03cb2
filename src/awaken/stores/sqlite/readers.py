"""Reader threads: each has its own connection, and none ever waits for a writer."""

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from awaken.stores.sql.session import Moment, SqlSession

from .connection import FAULTS, SqliteSession, connect, translate_error
from .jobs import Job, run_without_suspending, settle

T = TypeVar("T")


class Readers:
    """Runs work on consistent views. A connection is not used again after an error."""

    def __init__(self, path: Path, store: str, now: Callable[[], Moment], count: int) -> None:
        self._path = path
        self._store = store
        self._now = now
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        """Waiting jobs; None marks the end."""
        self._threads = [
            threading.Thread(target=self._serve, name=f"awaken reader {store}", daemon=True)
            for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[SqlSession], Awaitable[T]]) -> Awaitable[T]:
        """Queue a job, and return what awaits its result."""
        job = Job(work, asyncio.get_running_loop())
        self._jobs.put(job)
        return job

    def close(self) -> None:
        """Finish all queued jobs, then end the threads. Blocks."""
        self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        connection: sqlite3.Connection | None = None
        while (job := self._jobs.get()) is not None:
            connection = self._read(connection, job)
            settle([job])
        # Pass the end mark on to the next thread.
        self._jobs.put(None)
        if connection is not None:
            connection.close()

    def _read(self, connection: sqlite3.Connection | None, job: Job) -> sqlite3.Connection | None:
        """Run a job; returns the connection for the next job, or None if it failed."""
        try:
            if connection is None:
                connection = connect(self._path, self._store, is_writer=False)
            connection.execute("BEGIN")
            try:
                job.outcome = run_without_suspending(job.work(SqliteSession(connection, self._now)))
            finally:
                connection.execute("COMMIT")
        except FAULTS as error:
            job.error = translate_error(error, self._store)
            if connection is not None:
                connection.close()
            return None
        except BaseException as error:  # noqa: BLE001 - passed to the waiting task
            job.error = error
        return connection
