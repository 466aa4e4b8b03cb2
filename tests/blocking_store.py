"""A real store in a simulation: each call of it is one step of the virtual event loop.

The store lives on an event loop of its own, in a thread, where time is real. Whoever calls it from
the virtual loop blocks until the answer is there, so a trial stays deterministic. What is due and
how long a lease lasts, the store judges by the clock of the trial.
"""

import asyncio
import inspect
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import asyncpg

from awaken.contracts.clock import Clock
from awaken.contracts.storage.dispatch import LeaseReport
from awaken.contracts.storage.mailbox import LeaseKeeper
from awaken.stores import PostgresStore, SqliteStore, Store
from awaken.stores.postgres.session import PostgresSession
from awaken.stores.sql.session import Moment

from .postgres.server import new_schema, server

CALL_S = 60
"""How long one call may take, in real time."""
MakeStore = Callable[[Clock], Any]


class StoreThread:
    """A thread with an event loop for stores, and another one for those who extend leases."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._keeping = ThreadPoolExecutor(1)
        self._clock: Clock | None = None
        self._moment = Moment(wall_ms=0, lease_ms=0)

    def follow(self, clock: Clock) -> None:
        """Take the time from the clock of another trial."""
        self._clock = clock

    def now(self) -> Moment:
        """The time of the trial, as of the call that a store executes."""
        return self._moment

    def run(self, work: Any) -> Any:
        """Run a coroutine on the loop of stores, and wait for its result."""
        self._read_clock()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S)

    def keep(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in the thread of those who extend leases, and wait for its result."""
        self._read_clock()
        return self._keeping.submit(work, *arguments).result(CALL_S)

    def close(self) -> None:
        """Stop both threads."""
        self._keeping.shutdown()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S)
        self._loop.close()

    def _read_clock(self) -> None:
        # Here, on the virtual loop: in other threads its clock has no time to tell.
        if self._clock is not None:
            clock = self._clock
            self._moment = Moment(wall_ms=clock.now_ms(), lease_ms=clock.now_ms())


class BlockingKeeper:
    """Extends leases in its own thread, and lets the caller wait."""

    def __init__(self, thread: StoreThread, keeper: LeaseKeeper) -> None:
        self._thread = thread
        self._keeper = keeper

    def extend(self, claim_tokens: Sequence[str], lease_ms: int) -> tuple[LeaseReport, ...]:
        """Extend leases."""
        found: tuple[LeaseReport, ...] = self._thread.keep(
            self._keeper.extend, claim_tokens, lease_ms
        )
        return found

    def close(self) -> None:
        """Release the connection."""
        self._thread.keep(self._keeper.close)


class BlockingStore:
    """A store whose calls return at once, as those of a store in memory do."""

    is_shared = True

    def __init__(self, thread: StoreThread, store: Store) -> None:
        self._thread = thread
        self._store = store
        self._keepers: list[BlockingKeeper] = []
        self.name = store.name

    def lease_keeper(self) -> BlockingKeeper:
        """Return a keeper that is closed with the store."""
        self._keepers.append(BlockingKeeper(self._thread, self._store.lease_keeper()))
        return self._keepers[-1]

    async def close(self) -> None:
        """Close the store, and its keepers before."""
        for keeper in self._keepers:
            keeper.close()
        self._thread.run(self._store.close())

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not inspect.iscoroutinefunction(method):
            return method

        async def call(*arguments: Any, **options: Any) -> Any:
            return self._thread.run(method(*arguments, **options))

        return call


@contextmanager
def sqlite_trials(folder: Path) -> Iterator[MakeStore]:
    """Make a SQLite store for each trial: a copy of an empty file, so that none is migrated."""
    thread, empty, used = StoreThread(), folder / "empty.db", folder / "trial.db"

    def make(clock: Clock) -> Any:
        for old in folder.glob("trial.db*"):
            old.unlink()
        shutil.copy(empty, used)
        thread.follow(clock)
        return BlockingStore(thread, SqliteStore(used, thread.now))

    try:
        made = SqliteStore(empty)
        thread.run(made.open())
        thread.run(made.close())
        yield make
    finally:
        thread.close()


@contextmanager
def postgres_trials(_folder: Path) -> Iterator[MakeStore]:
    """Make an empty Postgres store for each trial, in one schema; the server tells our time."""
    thread, schema = StoreThread(), new_schema()

    async def now(_session: PostgresSession) -> Moment:
        return thread.now()

    async def empty() -> None:
        connection = await asyncpg.connect(server().url)
        try:
            found = await connection.fetch(
                "SELECT tablename FROM pg_tables WHERE schemaname = $1 AND tablename <> 'facts'",
                schema,
            )
            for name in (it["tablename"] for it in found):
                # Far fewer rows than it takes for TRUNCATE, which makes new files, to be faster.
                await connection.execute(f"DELETE FROM {schema}.{name}")
        finally:
            await connection.close()

    def make(clock: Clock) -> Any:
        thread.run(empty())
        thread.follow(clock)
        return BlockingStore(thread, PostgresStore(server().url, schema=schema))

    try:
        with mock.patch.object(PostgresSession, "now", now):
            yield make
    finally:
        thread.close()
