"""A log whose days a test decides, and a purge that is cut at any of its statements."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import pytest

from awaken.contracts.events import StepEnd, StepStart
from awaken.contracts.storage.dispatch import Purged
from awaken.stores.postgres import PostgresStore, partitions
from awaken.stores.postgres.texts import NOW, STATEMENTS, Texts
from awaken.testing.store_conformance.writing import DONE, Writer, run

from .server import new_schema, server
from .stores import opened

DAY_MS = partitions.DAY_MS
NOON_MS = DAY_MS // 2


def set_log_clock(store: PostgresStore, now_ms: int, patch: pytest.MonkeyPatch) -> None:
    """Let a store believe that it is another time when it looks at the days of its log."""
    listing = partitions._OWN["list_log_partitions"].replace(NOW, f"{now_ms}::bigint")
    patch.setitem(STATEMENTS, "list_log_partitions", listing)
    shared = store.database._shared
    # It keeps the texts that it has used.
    shared.texts = Texts(shared.texts.schema)


class Calendar:
    """The clock of a database as its log sees it: the day of new commits, and what is over."""

    def __init__(self, store: PostgresStore, schema: str, patch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.schema = schema
        self.day = 0
        self._patch = patch

    @property
    def now_ms(self) -> int:
        return self.day * DAY_MS + NOON_MS

    async def begin(self) -> None:
        (row,) = await server().sql(f"SELECT {NOW}")
        await self.turn_to(row[0] // DAY_MS)

    async def turn_to(self, day: int) -> None:
        self.day = day
        text = f"ALTER TABLE {self.schema}.commits ALTER COLUMN day SET DEFAULT {day}"
        for is_last in (False, False, False, True):
            try:
                await server().sql(text)
                break
            except asyncpg.DeadlockDetectedError:
                # It locks the log and then its days; a purge under way has a day and wants the log.
                if is_last:
                    raise
        set_log_clock(self.store, self.now_ms, self._patch)

    async def undo_contract(self) -> None:
        """Leave the log as one that older code may still read."""
        await server().sql(f"DELETE FROM {self.schema}.facts WHERE name = 'log_marks'")

    async def pass_day(self) -> None:
        await self.turn_to(self.day + 1)

    async def write_run(self, name: str, thread: Writer, *, is_open: bool = False) -> None:
        """A run of two events in two commits, dated at this day."""
        records = [run(name, thread_id=thread.thread_id)]
        records.append(
            run(name, thread_id=thread.thread_id)
            if is_open
            else run(name, DONE, thread_id=thread.thread_id, finished_at=self.now_ms)
        )
        for record, event in zip(records, (StepStart(), StepEnd()), strict=True):
            await thread.commit(run=record, events=(event,), committed_at=self.now_ms)

    async def purge(self, days: int, kept: Mapping[str, str] | None = None) -> Purged:
        """Purge until nothing is left to do; returns everything that was removed."""
        removed = Purged()
        while not (purged := await self.purge_once(days, kept)).is_empty:
            removed = Purged(
                events=removed.events + purged.events,
                partitions=removed.partitions + purged.partitions,
                runs=removed.runs + purged.runs,
            )
        return removed

    async def purge_once(self, days: int, kept: Mapping[str, str] | None = None) -> Purged:
        return await self.store.purge(self.now_ms - days * DAY_MS, 1000, kept)

    async def list_partitions(self) -> list[str]:
        rows = await server().sql(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            f" WHERE i.inhparent = '{self.schema}.commits'::regclass ORDER BY 1"
        )
        return [row[0] for row in rows]

    async def list_tables(self) -> list[str]:
        """Every table that has commits or had them, attached or not."""
        rows = await server().sql(
            "SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace"
            " AND relname LIKE 'commits\\_%' AND relkind = 'r' ORDER BY 1",
            self.schema,
        )
        return [row[0] for row in rows]

    async def count_commits(self, table: str = "commits") -> int:
        (row,) = await server().sql(f"SELECT count(*) FROM {self.schema}.{table}")
        return int(row[0])

    async def read_log(self, thread_id: str, after: int = 0) -> list[int]:
        seen: list[int] = []
        # A page has a thousand events; how many a thread has depends on the machine's speed.
        while page := await self.store.list_events(thread_id, after=seen[-1] if seen else after):
            seen += [entry.seq for entry in page]
        return seen


@asynccontextmanager
async def dated_store() -> AsyncIterator[tuple[PostgresStore, Calendar]]:
    """An empty store with a calendar that stands at the present day."""
    schema = new_schema()
    with pytest.MonkeyPatch.context() as patch:
        async with opened(schema=schema) as store:
            calendar = Calendar(store, schema, patch)
            await calendar.begin()
            yield store, calendar


class CutError(Exception):
    """The process of a purge ends here."""


@contextmanager
def cut_purge(at: int) -> Iterator[list[str]]:
    """End the session of a purge before its statement number `at`; yields what it has run."""
    run_before: list[str] = []
    connect = partitions.connect_direct

    async def connect_cut(*args: Any, **options: Any) -> Any:
        connection = await connect(*args, **options)
        return _CutConnection(connection, at, run_before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "connect_direct", connect_cut)
        yield run_before


@contextmanager
def before_statement(beginning: str, act: Callable[[], Awaitable[object]]) -> Iterator[None]:
    """Do something just before a purge runs the statements that begin like this."""
    connect = partitions.connect_direct

    async def connect_watched(*args: Any, **options: Any) -> Any:
        return _WatchedConnection(await connect(*args, **options), beginning, act)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "connect_direct", connect_watched)
        yield


class _WatchedConnection:
    def __init__(
        self, connection: Any, beginning: str, act: Callable[[], Awaitable[object]]
    ) -> None:
        self._connection = connection
        self._beginning = beginning
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def execute(self, text: str, *args: Any) -> Any:
        if text.startswith(self._beginning):
            await self._act()
        return await self._connection.execute(text, *args)


async def _wait_until_gone(process: int) -> None:
    """The server ends a session that was cut when it comes to it; until then it keeps its locks."""
    while await server().sql("SELECT 1 FROM pg_stat_activity WHERE pid = $1", process):
        await asyncio.sleep(0.01)


class _CutConnection:
    def __init__(self, connection: Any, at: int, run_before: list[str]) -> None:
        self._connection = connection
        self._left = at
        self._run_before = run_before

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._connection, name)
        if name not in ("execute", "fetch", "fetchval"):
            return method

        async def call(text: str, *args: Any) -> Any:
            if self._left == 0:
                process = self._connection.get_server_pid()
                self._connection.terminate()
                await _wait_until_gone(process)
                raise CutError
            self._left -= 1
            self._run_before.append(text)
            return await method(text, *args)

        return call
