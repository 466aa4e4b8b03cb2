"""Lists of runs in a SQLite file: query plans, bounded pages, columns of older runs, usage."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from itertools import combinations, product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken.contracts.lifecycle import Failed, RunStatus, TicketStatus
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.runs.records import RunKind, RunRecord
from awaken.contracts.storage.queries import Order, RunQuery, TicketQuery, at_cursor
from awaken.contracts.storage.usage import SETTLE_MS
from awaken.stores.sql import lists, rows
from awaken.stores.sql.listed_rows import LOOKED_AT_MAX
from awaken.stores.sql.migrations import migrations
from awaken.stores.sqlite import SqliteStore
from awaken.stores.sqlite.connection import STATEMENTS, SqliteSession
from awaken.testing.store_conformance.writing import DONE, Writer, run

BEFORE_COLUMNS = 5
FILTERS: dict[str, tuple[Any, ...]] = {
    "status": (RunStatus.DONE, RunStatus.WAITING),
    "agent_id": ("a",),
    "since": (5,),
    "until": (9,),
    "kinds": ((RunKind.CHAT, RunKind.TASK), (RunKind.EVAL,), (RunKind.CHAT,)),
    "ended": ("natural_end", "error"),
    "publication": (3,),
    "tenant_id": ("ann",),
    "thread_id": ("t",),
    "q": ("run-",),
}


def on_a_file(path: Path, work: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def main() -> None:
        store = SqliteStore(path)
        await store.open()
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(main())


class Watched(SqliteSession):
    """A session that notes what it runs."""

    __slots__ = ("plans",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self.plans: list[tuple[str, str]] = []

    async def all(self, statement: str, *args: Any) -> Any:
        self._explain(statement, args)
        return await super().all(statement, *args)

    async def one(self, statement: str, *args: Any) -> Any:
        self._explain(statement, args)
        return await super().one(statement, *args)

    def _explain(self, statement: str, args: Any) -> None:
        text = f"EXPLAIN QUERY PLAN {STATEMENTS[statement]}"
        self.plans += [(statement, row[3]) for row in self._connection.execute(text, args)]


def combined_filters() -> Iterator[dict[str, Any]]:
    for count in range(4):
        for names in combinations(FILTERS, count):
            choices: list[dict[str, Any]] = [{}]
            for name in names:
                choices = [made | {name: it} for made in choices for it in FILTERS[name]]
            yield from choices


def test_no_combination_of_filters_scans_a_table(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def fill(store: SqliteStore) -> None:
        await Writer(store, "t").commit(run=run("run-1", DONE, thread_id="t"))

    on_a_file(path, fill)

    async def explain() -> set[tuple[str, str]]:
        with closing(sqlite3.connect(path)) as file:
            session = Watched(file)
            for filters in combined_filters():
                for order in Order:
                    query = RunQuery(order=order, with_total=True, **filters)
                    await lists.list_runs(session, query)
                    behind = msgspec.structs.replace(query, after=(4, "x"))
                    await lists.list_runs(session, behind)
            places: tuple[dict[str, Any], ...] = (
                {},
                {"thread_id": "t"},
                {"tenant_id": "ann"},
                {"run_id": "r"},
            )
            for place, status, order in product(places, (None, *TicketStatus), Order):
                query = TicketQuery(order=order, with_total=True, status=status, **place)
                await lists.list_tickets(session, query)
                await lists.list_tickets(session, msgspec.structs.replace(query, after=(4, "x")))
            return set(session.plans)

    plans = asyncio.run(explain())
    assert len({name for name, _ in plans}) > 20
    scans = {it for it in plans if it[1].startswith("SCAN") and "(subquery" not in it[1]}
    assert {it for it in scans if it[1] not in ("SCAN a", "SCAN b", "SCAN CONSTANT ROW")} == set()
    sorts = {name for name, step in plans if "TEMP B-TREE FOR ORDER BY" in step}
    assert all("_thread_" in name or "_named_" in name for name in sorts), sorts


def test_a_page_looks_at_a_bounded_number_of_runs(tmp_path: Path) -> None:
    path, count = tmp_path / "store.db", 2 * LOOKED_AT_MAX + 100

    async def work(store: SqliteStore) -> None:
        fill_runs(path, count, lambda n: {"agent_id": "rare" if n in (7, count - 7) else "a"})
        for order in Order:
            # By the agent alone an index finds both at once.
            rare = await store.list_runs(RunQuery(limit=5, order=order, agent_id="rare"))
            assert (len(rare.items), rare.next_cursor) == (2, None)
            sizes, found = list[int](), list[str]()
            # No index is for this pair: a page ends, and the next one goes on.
            pair = RunQuery(limit=5, order=order, since=0, kinds=(RunKind.EVAL, RunKind.TASK))
            page = await store.list_runs(pair)
            while True:
                sizes.append(len(page.items))
                found += [it.run_id for it in page.items]
                if page.next_cursor is None:
                    break
                page = await store.list_runs(at_cursor(pair, page.next_cursor))
            expected = [f"run-{n:06}" for n in (7, count - 7)]
            assert found == (expected if order is Order.ASC else expected[::-1])
            assert len(sizes) == 3, sizes

    on_a_file(path, work)


def fill_runs(path: Path, count: int, choose: Callable[[int], dict[str, str]]) -> None:
    """Write runs straight into a file; the rare ones are evals."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("INSERT INTO threads (id, head) VALUES ('t', x'00')")
        made = []
        for n in range(count):
            agent = choose(n)["agent_id"]
            purpose = RunKind.EVAL if agent == "rare" else RunKind.CHAT
            record = run(
                f"run-{n:06}", DONE, thread_id="t", agent_id=agent, created_at=n, purpose=purpose
            )
            kind = None if purpose is RunKind.CHAT else purpose.value
            made.append((rows.place(1, n), record.run_id, n, agent, kind, rows.pack(record)))
        file.executemany(
            "INSERT INTO runs (place, run_id, thread_no, status, created_at, finished_at,"
            " first_version, agent_id, kind, record) VALUES (?, ?, 1, 'done', ?, 5, 1, ?, ?, ?)",
            made,
        )
        file.commit()


def old_file(path: Path, records: list[RunRecord]) -> Path:
    """A file as the schema before the columns left it."""
    with closing(sqlite3.connect(path)) as file:
        for script in migrations("awaken.stores.sqlite")[:BEFORE_COLUMNS]:
            file.executescript(script)
        file.execute("INSERT INTO threads (id, head, tenant_id) VALUES ('@ann:t', x'00', 'ann')")
        for n, record in enumerate(records):
            blob = b"damaged" if record.run_id == "damaged" else rows.pack(record)
            file.execute(
                "INSERT INTO runs (place, run_id, thread_no, status, created_at, finished_at,"
                " first_version, record) VALUES (?, ?, 1, ?, ?, 7, 1, ?)",
                (rows.place(1, n), record.run_id, record.status.value, record.created_at, blob),
            )
        file.execute(f"PRAGMA user_version = {BEFORE_COLUMNS}")
        file.commit()
    return path


def test_older_runs_get_their_columns_in_slices(tmp_path: Path) -> None:
    records = [
        run(
            f"@ann:run-{n}",
            DONE,
            thread_id="@ann:t",
            agent_id="ab"[n % 2],
            created_at=n,
            termination=Failed(message="no") if n % 3 == 0 else None,
            purpose=RunKind.EVAL if n == 4 else RunKind.CHAT,
            usage=TokenUsage(total_tokens=n, cost_nanos=n * 10),
        )
        for n in range(7)
    ]

    async def work(store: SqliteStore) -> None:
        everything = await store.list_runs(RunQuery(tenant_id="ann"))
        assert list(everything.items) == records, "the tenant's runs are listed at once"
        assert [await store.fill_run_columns(3) for _ in range(4)] == [3, 3, 1, 0]
        for query, places in (
            (RunQuery(agent_id="b"), (1, 3, 5)),
            (RunQuery(ended="error"), (0, 3, 6)),
            (RunQuery(kinds=(RunKind.EVAL,)), (4,)),
        ):
            found = await store.list_runs(query)
            assert list(found.items) == [records[n] for n in places], query

    path = old_file(tmp_path / "store.db", records)
    on_a_file(path, work)
    with closing(sqlite3.connect(path)) as file:
        spent = file.execute("SELECT tokens, cost_nanos FROM runs ORDER BY place").fetchall()
    assert spent == [(n, n * 10) for n in range(7)]


def test_a_damaged_older_run_does_not_stop_the_others(tmp_path: Path) -> None:
    records = [run(name, DONE, thread_id="@ann:t") for name in ("damaged", "sound")]

    async def work(store: SqliteStore) -> None:
        assert [await store.fill_run_columns() for _ in range(2)] == [2, 0]
        assert (await store.list_runs(RunQuery(agent_id="agent"))).items == (records[1],)

    on_a_file(old_file(tmp_path / "store.db", records), work)


class Stopped(Exception):
    """The process is gone."""


@pytest.mark.parametrize("stops_at", ["add_fact", "replace_fact", "find_usage", "save_usage"])
def test_a_process_that_stops_while_it_counts_counts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops_at: str
) -> None:
    async def work(store: SqliteStore) -> None:
        ended_at = await store.now_ms() - 2 * SETTLE_MS
        if stops_at == "replace_fact":
            await end_run(store, "early", ended_at - 1)
            assert await store.count_usage() == 1
        before = await total_runs(store)
        for n in range(3):
            await end_run(store, f"run-{n}", ended_at + n, agent_id=f"agent-{n}")
        with monkeypatch.context() as patched:
            calls = 0

            def stopping(name: str) -> Callable[..., Any]:
                known = getattr(SqliteSession, name)

                async def call(self: SqliteSession, statement: str, *args: Any) -> Any:
                    nonlocal calls
                    found = await known(self, statement, *args)
                    if statement == stops_at:
                        calls += 1
                        # In the middle of the sums, and after the cursor has moved.
                        if calls == 2 or stops_at.endswith("fact"):
                            raise Stopped
                    return found

                return call

            for name in ("run", "one"):
                patched.setattr(SqliteSession, name, stopping(name))
            with pytest.raises(Stopped):
                await store.count_usage()
        assert await total_runs(store) == before
        assert await store.count_usage() == 3
        assert await total_runs(store) == before + 3
        assert await store.count_usage() == 0

    on_a_file(tmp_path / "store.db", work)


async def end_run(store: SqliteStore, run_id: str, ended_at: int, **fields: Any) -> None:
    ended = run(run_id, DONE, thread_id=f"t-{run_id}", finished_at=ended_at, **fields)
    await Writer(store, f"t-{run_id}").commit(run=ended)


async def total_runs(store: SqliteStore) -> int:
    return sum(it.sums.runs for it in await store.list_usage(0, 1 << 40))
