"""The log of Postgres by days: what is made ahead, what goes, and what must stay."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from tests.postgres.log_days import Calendar, CutError, before_statement, cut_purge, dated_store
from tests.postgres.server import server

from awaken.contracts.errors import CorruptRecord, CursorExpired, StoreUnavailable
from awaken.contracts.events import StepStart
from awaken.contracts.storage.dispatch import Purged
from awaken.contracts.storage.state_history import MissingHistory
from awaken.stores.postgres import PostgresStore, partitions
from awaken.stores.postgres.texts import STATEMENTS
from awaken.stores.sql import rows
from awaken.testing.store_conformance.writing import (
    DONE,
    Writer,
    build_user_message,
    refusal,
    run,
    value,
)

RETENTION = 3
BEFORE_CONTRACT, AFTER_CONTRACT = False, True


class OutOfTime(int):
    """A limit of a statement that is over before the next one ends."""

    def __format__(self, spec: str) -> str:
        return "1; SELECT pg_sleep(5)"


@asynccontextmanager
async def holding(text: str) -> AsyncIterator[None]:
    """A transaction of another process that keeps the locks of a statement."""
    connection = await asyncpg.connect(server().url)
    try:
        async with connection.transaction():
            await connection.execute(text)
            yield
    finally:
        await connection.close()


async def explain(calendar: Calendar, text: str, *options: str) -> list[asyncpg.Record]:
    """The plan of a statement of the store, with its arguments filled in."""
    connection = await asyncpg.connect(server().url)
    try:
        await connection.execute(f"SET search_path = {calendar.schema}")
        return await connection.fetch(f"EXPLAIN {' '.join(options)} {text}")
    finally:
        await connection.close()


async def write_days(store: PostgresStore, calendar: Calendar, days: int) -> dict[str, Writer]:
    """Each day a thread of its own and one run of a thread that lives on, and a purge."""
    threads = {"long": Writer(store, "long")}
    for number in range(days):
        name = f"day-{number}"
        threads[name] = Writer(store, name)
        await calendar.write_run(f"run-{name}", threads[name])
        await calendar.write_run(f"long-{number}", threads["long"])
        await calendar.purge(RETENTION)
        await calendar.pass_day()
    return threads


@pytest.mark.parametrize("is_contracted", [BEFORE_CONTRACT, AFTER_CONTRACT])
def test_a_day_goes_as_a_whole_and_cursors_into_it_expire(is_contracted: bool) -> None:
    async def check() -> None:
        async with dated_store() as (store, calendar):
            if not is_contracted:
                await calendar.undo_contract()
            await write_days(store, calendar, 8)
            assert await calendar.purge(RETENTION) == Purged(partitions=1, runs=1)
            # Days 0 to 4 are gone: the eighth day has begun, and three are kept whole.
            for number in range(8):
                expected = [] if number < 5 else [1, 2]
                assert await calendar.read_log(f"day-{number}") == expected
            assert await calendar.read_log("long") == [11, 12, 13, 14, 15, 16]
            assert await calendar.read_log("long", 10) == [11, 12, 13, 14, 15, 16]
            for after in (1, 9):
                error = await refusal(CursorExpired, store.list_events("long", after=after))
                assert error.purged_seq == 10
            error = await refusal(CursorExpired, store.list_events("day-0", after=1))
            assert error.purged_seq == 2
            assert await calendar.read_log("day-0", 2) == []
            (mark,) = await server().sql(
                f"SELECT purged_seq FROM {calendar.schema}.threads WHERE id = 'long'"
            )
            # Older code looks for it there, until the contract says that there is none.
            assert mark[0] == (0 if is_contracted else 10)

    asyncio.run(check())


def test_a_read_looks_into_the_kept_days_and_no_others() -> None:
    async def check() -> None:
        async with dated_store() as (store, calendar):
            threads = await write_days(store, calendar, 9)
            await calendar.write_run("run-today", threads["long"])
            await calendar.purge(RETENTION)
            text = STATEMENTS["list_commit_events"]
            for number, given in enumerate((*rows.all_places(1), 0, 100), 1):
                text = text.replace(f"${number}", str(given))
            plan = "\n".join(row[0] for row in await explain(calendar, text))
            scanned = set(re.findall(r" on (commits_[a-z0-9]+)\b(?!_)", plan))
            filled = {it for it in scanned if await calendar.count_commits(it)}
            assert "Seq Scan" not in plan.replace("Seq Scan on commits_rest", "")
            assert len(filled) <= RETENTION + 1
            # Besides these: the next day, which is made ahead, and the default partition.
            assert len(scanned - filled) <= 2

    asyncio.run(check())


def test_the_commits_of_open_and_kept_runs_stay_with_all_that_follow() -> None:
    async def check() -> None:
        async with dated_store() as (store, calendar):
            await store.contract_schema()
            opened, pinned, ended = (Writer(store, name) for name in ("opened", "pinned", "ended"))
            for thread in (opened, pinned, ended):
                await calendar.write_run(f"{thread.thread_id}-0", thread)
            await calendar.write_run("opened-1", opened, is_open=True)
            for number in (1, 2):
                await calendar.write_run(f"pinned-{number}", pinned)
            kept = {"pinned-1": "pinned"}
            for _ in range(9):
                await calendar.pass_day()
                await calendar.purge(RETENTION, kept)
            assert await calendar.read_log("opened") == [3, 4]
            assert await calendar.read_log("pinned") == [3, 4, 5, 6]
            assert await calendar.read_log("ended") == []
            assert await calendar.count_commits() == 6
            assert await store.load_run("pinned-1") is not None
            error = await refusal(CursorExpired, store.list_events("opened", after=1))
            assert error.purged_seq == 2
            # The run goes on, ends, and is purged as if its commits had never been moved.
            finished = run("opened-1", DONE, thread_id="opened", finished_at=calendar.now_ms)
            await opened.commit(run=finished, events=(StepStart(),), committed_at=calendar.now_ms)
            assert await calendar.read_log("opened", 3) == [4, 5]
            assert (await calendar.purge(RETENTION, kept)).events == 2
            assert await calendar.read_log("opened") == [5]
            assert (await calendar.purge(RETENTION)).events == 4
            for _ in range(RETENTION + 2):
                await calendar.pass_day()
                await calendar.purge(RETENTION)
            assert await calendar.count_commits() == 0

    asyncio.run(check())


@pytest.mark.parametrize("is_contracted", [BEFORE_CONTRACT, AFTER_CONTRACT])
def test_a_purge_that_is_killed_at_any_statement_loses_and_doubles_nothing(
    is_contracted: bool,
) -> None:
    """Whatever was run before, a log is whole, and the next purge ends the work."""

    async def check(at: int) -> bool:
        async with dated_store() as (store, calendar):
            if not is_contracted:
                await calendar.undo_contract()
            opened, ended = Writer(store, "opened"), Writer(store, "ended")
            for thread in (opened, ended):
                await calendar.write_run(f"{thread.thread_id}-0", thread)
            await calendar.write_run("opened-1", opened, is_open=True)
            for _ in range(RETENTION + 2):
                await calendar.pass_day()
            with cut_purge(at) as run_before:
                try:
                    await calendar.purge_once(RETENTION)
                    is_cut = False
                except (CutError, StoreUnavailable):
                    is_cut = True
            assert await calendar.read_log("opened") in ([1, 2, 3, 4], [3, 4]), run_before
            assert await calendar.read_log("ended") in ([1, 2], []), run_before
            assert await calendar.count_commits() in (6, 2)
            await calendar.purge(RETENTION)
            assert await calendar.read_log("opened") == [3, 4]
            assert await calendar.read_log("ended") == []
            assert await calendar.count_commits() == 2
            assert await calendar.list_tables() == await calendar.list_partitions()
            return is_cut

    async def check_all() -> int:
        at = 0
        while await check(at):
            at += 1
        return at

    assert asyncio.run(check_all()) >= 10


def test_a_run_that_opens_in_the_last_moment_keeps_its_commits() -> None:
    """After the commits of all others were moved, and before the day is dropped."""

    async def check() -> None:
        async with dated_store() as (store, calendar):
            await calendar.write_run("run-1", Writer(store, "late"))
            for _ in range(RETENTION + 2):
                await calendar.pass_day()

            async def set_status(status: str) -> None:
                await server().sql(f"UPDATE {calendar.schema}.runs SET status = '{status}'")

            with before_statement("ALTER TABLE commits DETACH", lambda: set_status("waiting")):
                assert (await calendar.purge_once(RETENTION)).partitions == 0
            assert await calendar.read_log("late") == [1, 2]
            await set_status("done")
            assert (await calendar.purge(RETENTION)).partitions == 1
            assert await calendar.read_log("late") == []
            assert await calendar.list_tables() == await calendar.list_partitions()

    asyncio.run(check())


def test_commits_without_a_partition_are_kept_told_and_given_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No process with a retention period ran for days: nothing is refused, nothing is hidden."""

    async def check() -> None:
        async with dated_store() as (store, calendar):
            long = Writer(store, "long")
            for number in range(RETENTION):
                await calendar.write_run(f"long-{number}", long)
                await calendar.pass_day()
            assert await calendar.count_commits(partitions.REST) == 4
            with caplog.at_level(logging.WARNING):
                assert await calendar.purge(RETENTION) == Purged()
            assert "no partition for a day" in caplog.text
            assert await calendar.count_commits(partitions.REST) == 0
            assert await calendar.read_log("long") == [1, 2, 3, 4, 5, 6]
            caplog.clear()
            for number in range(RETENTION + 1):
                await calendar.write_run(f"later-{number}", long)
                await calendar.pass_day()
                await calendar.purge(RETENTION)
            assert "no partition" not in caplog.text
            assert await calendar.read_log("long") == [9, 10, 11, 12, 13, 14]
            assert await calendar.count_commits(partitions.REST) == 0

    asyncio.run(check())


def test_a_default_partition_that_is_too_large_to_close_is_told_and_left_alone(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        async with dated_store() as (store, calendar):
            await calendar.pass_day()
            await calendar.write_run("run-1", Writer(store, "long"))
            monkeypatch.setattr(partitions, "CLOSE_MS", OutOfTime(1))
            assert (await calendar.purge(RETENTION)).is_empty
            assert "0062" in caplog.text
            monkeypatch.undo()
            await calendar.turn_to(calendar.day)
            assert await calendar.read_log("long") == [1, 2]
            await calendar.purge(RETENTION)
            assert await calendar.count_commits(partitions.REST) == 0

    asyncio.run(check())


def test_a_clock_that_was_wrong_for_a_while_loses_no_commit() -> None:
    """Behind, into days that were dropped, and ahead, into days that have no partition."""

    async def check() -> None:
        async with dated_store() as (store, calendar):
            long = Writer(store, "long")
            for _ in range(RETENTION + 3):
                await calendar.pass_day()
                await calendar.purge(RETENTION)
            right = calendar.day
            for wrong in (right - 20, right + 400):
                await calendar.turn_to(wrong)
                await calendar.write_run(f"run-{wrong}", long)
            await calendar.turn_to(right)
            await calendar.write_run("run-right", long)
            await calendar.purge(RETENTION)
            assert await calendar.count_commits(partitions.REST) == 0
            # One was dated before the retained days: only that one is purged.
            assert await calendar.read_log("long") == [3, 4, 5, 6]

    asyncio.run(check())


def test_a_longer_retention_has_wider_partitions_and_no_retention_has_none() -> None:
    async def check() -> None:
        async with dated_store() as (store, calendar):
            long = Writer(store, "long")
            for number in range(200):
                if number % 50 == 0:
                    await calendar.write_run(f"run-{number}", long)
                await calendar.pass_day()
                await calendar.purge_once(365)
            found = await calendar.list_partitions()
            assert len(found) <= 200 / (365 // partitions.DAYS_MAX) + 3
            # The period becomes shorter while all of it runs.
            await calendar.purge(RETENTION)
            assert await calendar.read_log("long") == []
            assert len(await calendar.list_partitions()) <= 3

        async with dated_store() as (store, calendar):
            long = Writer(store, "long")
            for number in range(5):
                await calendar.write_run(f"run-{number}", long)
                await calendar.pass_day()
            assert await calendar.list_partitions() == ["commits_first", partitions.REST]

    asyncio.run(check())


def test_one_process_purges_at_a_time() -> None:
    async def check() -> None:
        async with dated_store() as (store, calendar):
            await calendar.write_run("run-1", Writer(store, "long"))
            for _ in range(RETENTION + 2):
                await calendar.pass_day()
            before = await calendar.list_partitions()
            for what in ("awaken purge of ", "awaken log of "):
                key = f"hashtextextended('{what}{calendar.schema}', 0)"
                async with holding(f"SELECT pg_advisory_xact_lock({key})"):
                    assert await calendar.purge_once(RETENTION) == Purged()
                assert await calendar.list_partitions() == before
            assert (await calendar.purge(RETENTION)).partitions == 1

    asyncio.run(check())


def test_a_purge_waits_a_moment_for_others_and_gives_up() -> None:
    """A reader that holds the log all the time delays no writer for longer than a moment."""

    async def check() -> None:
        async with dated_store() as (store, calendar):
            long = Writer(store, "long")
            await calendar.write_run("run-1", long)
            for _ in range(RETENTION + 2):
                await calendar.pass_day()
                await calendar.purge(99)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(partitions, "TRIES", 2)
                async with holding(f"SELECT count(*) FROM {calendar.schema}.commits"):
                    purging = asyncio.create_task(calendar.purge_once(RETENTION))
                    await server().until_waiting()
                    await calendar.write_run("run-2", long)
                    assert (await purging).partitions == 0
            assert await calendar.read_log("long") == [1, 2, 3, 4]
            assert (await calendar.purge(RETENTION)).partitions == 1
            assert await calendar.read_log("long") == [3, 4]

    asyncio.run(check())


def test_a_purge_that_meets_a_locked_commit_leaves_the_day_for_the_next_one() -> None:
    async def check() -> None:
        async with dated_store() as (store, calendar):
            await calendar.write_run("opened", Writer(store, "opened"), is_open=True)
            for _ in range(RETENTION + 2):
                await calendar.pass_day()
                await calendar.purge(99)
            async with holding(f"SELECT 1 FROM {calendar.schema}.commits FOR UPDATE"):
                assert (await calendar.purge_once(RETENTION)).partitions == 0
            assert (await calendar.purge(RETENTION)).partitions == 1
            assert await calendar.read_log("opened") == [1, 2]

    asyncio.run(check())


def test_a_day_that_begins_while_its_partition_is_made_gets_it_from_the_next_purge() -> None:
    async def check() -> None:
        async with dated_store() as (store, calendar):
            await calendar.purge(7)
            late = Writer(store, "late")

            async def begin_day() -> None:
                await calendar.write_run("late", late)

            await calendar.turn_to(calendar.day + 9)
            with before_statement("CREATE TABLE commits_", begin_day):
                await calendar.purge_once(7)
            assert await calendar.count_commits("commits_rest") == 2
            await calendar.purge(7)
            assert await calendar.count_commits("commits_rest") == 0
            assert await calendar.read_log("late") == [1, 2]

    asyncio.run(check())


def test_the_search_for_old_commits_walks_no_threads() -> None:
    """B10: however many threads there are, only commits that are older than their day are read."""

    async def check() -> None:
        async with dated_store() as (_, calendar):
            await server().sql(
                f"INSERT INTO {calendar.schema}.threads (id, head, version)"
                " SELECT 't-' || n, '', 1 FROM generate_series(1, 20000) AS n"
            )
            await server().sql(
                f"INSERT INTO {calendar.schema}.commits (place, commit_id, digest, committed_at,"
                " message_count, event_seq)"
                f" SELECT n * 4294967296 + 1, '', '', {calendar.now_ms}, 0, 0"
                " FROM generate_series(1, 20000) AS n"
            )
            # One is older than its day, as a moved one is.
            await server().sql(
                f"UPDATE {calendar.schema}.commits SET committed_at = 5"
                " WHERE place = 7 * 4294967296 + 1"
            )
            for table in ("commits", "threads"):
                await server().sql(f"ANALYZE {calendar.schema}.{table}")
            text = STATEMENTS["list_old_logs"]
            for number, given in enumerate((calendar.now_ms, 0, 100), 1):
                text = text.replace(f"${number}", str(given))
            plan = "\n".join(row[0] for row in await explain(calendar, text, "ANALYZE"))
            assert "Seq Scan on threads" not in plan, plan
            assert "Seq Scan on commits_first" not in plan, plan
            assert "commits_first_older" in plan, plan

    asyncio.run(check())


def test_a_log_that_ends_too_early_is_damaged_also_after_days_were_dropped() -> None:
    async def check() -> None:
        async with dated_store() as (store, calendar):
            await write_days(store, calendar, 6)
            await calendar.purge(RETENTION)
            (row,) = await server().sql(f"SELECT max(place) FROM {calendar.schema}.commits")
            thread_no = await server().sql(
                f"SELECT no FROM {calendar.schema}.threads WHERE id = 'long'"
            )
            last = rows.place(thread_no[0][0], 12)
            assert row[0] >= last
            await server().sql(f"DELETE FROM {calendar.schema}.commits WHERE place = {last}")
            await refusal(CorruptRecord, store.list_events("long"))

    asyncio.run(check())


def test_a_history_of_state_says_what_was_dropped_of_it() -> None:
    async def check() -> None:
        async with dated_store() as (store, calendar):
            await store.contract_schema()
            thread = Writer(store, "long")
            for number in range(2):
                name = f"run-{number}"
                await thread.commit(
                    run=run(name, thread_id="long"),
                    messages=(build_user_message(f"m-{number}"),),
                    events=(StepStart(),),
                    state={"k": value(str(number))},
                    committed_at=calendar.now_ms,
                )
                ended = run(name, DONE, thread_id="long", finished_at=calendar.now_ms)
                await thread.commit(run=ended, committed_at=calendar.now_ms)
                for _ in range(RETENTION):
                    await calendar.pass_day()
                    await calendar.purge(9)
            await calendar.pass_day()
            assert (await store.fold_state("run-0", 1)).missing is None
            await calendar.purge(RETENTION + 1)
            assert (await store.fold_state("run-1", 0)).missing is MissingHistory.PURGED

    asyncio.run(check())
