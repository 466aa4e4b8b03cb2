"""The stores that the machines of this folder run on, each driven from synchronous rules.

A machine owns time: only a store that can be given a clock belongs here.
"""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from hypothesis import HealthCheck, settings
from tests.postgres.server import new_schema, server
from tests.sampling import choose_size

from awaken.contracts.clock import Clock
from awaken.contracts.storage.store import Store
from awaken.stores.memory import MemoryStore
from awaken.stores.postgres import PostgresStore
from awaken.stores.postgres.session import PostgresSession
from awaken.stores.sql.session import Moment
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock

T = TypeVar("T")


class Subject:
    """One opened store with a clock of its own and a loop of its own."""

    def __init__(self, make: Callable[[Clock], Store]) -> None:
        self.clock = FakeClock()
        self._loop = asyncio.new_event_loop()
        self.store = make(self.clock)
        self.do(self.store.open())

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run one call of the store to its end."""
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        self.do(self.store.close())
        self._loop.close()


class MemorySubject(Subject):
    """The memory store never suspends, so that its calls need no loop."""

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            work.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("the memory store suspended")


@dataclass(frozen=True)
class NamedStore:
    """A kind of store, and how many examples a machine tries on it."""

    name: str
    open: Callable[[], Subject]
    examples: int = choose_size(40, 200)

    def settings(self) -> settings:
        return settings(
            max_examples=self.examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        )


def open_memory() -> Subject:
    return MemorySubject(lambda clock: MemoryStore(clock=clock, is_shared=True))


class SqliteSubject(Subject):
    """A real file, in a folder that goes with it."""

    def __init__(self) -> None:
        # In memory where there is such a folder: nothing here is about the disk.
        shm = Path("/dev/shm")
        self._folder = tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None)
        super().__init__(self._made)

    def _made(self, clock: Clock) -> Store:
        def now() -> Moment:
            return Moment(wall_ms=clock.now_ms(), lease_ms=clock.monotonic_ms() + 1000)

        return SqliteStore(Path(self._folder.name, "store.db"), now)

    def close(self) -> None:
        self.do(self.store.close())
        self.do(self._loop.shutdown_default_executor())
        self._loop.close()
        self._folder.cleanup()


class PostgresSubject(Subject):
    """A schema of its own on a real server, which is told the machine's time."""

    def __init__(self) -> None:
        self._now = mock.patch.object(PostgresSession, "now", self._tell_time)
        self._now.start()
        try:
            super().__init__(
                lambda _: PostgresStore(server().url, schema=new_schema(), pool_size=2)
            )
        except BaseException:
            self._now.stop()
            raise

    async def _tell_time(self) -> Moment:
        at = self.clock.now_ms()
        return Moment(wall_ms=at, lease_ms=at)

    def close(self) -> None:
        self._now.stop()
        super().close()


STORES = (
    NamedStore("memory", open_memory),
    NamedStore("sqlite", SqliteSubject, examples=choose_size(4, 10)),
    NamedStore("postgres", PostgresSubject, examples=choose_size(2, 10)),
)


def name_of(named: NamedStore) -> str:
    return named.name
