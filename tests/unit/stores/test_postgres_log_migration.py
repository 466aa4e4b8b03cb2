"""The log of an older store becomes partitions while processes of both versions use it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.postgres.log_days import set_log_clock
from tests.postgres.server import new_schema, server
from tests.postgres.stores import opened

from awaken.contracts.errors import StoreUnavailable
from awaken.contracts.events import StepEnd, StepStart
from awaken.stores.postgres import PostgresStore, partitions, schema
from awaken.stores.sql import migrations as numbered
from awaken.testing.store_conformance.writing import DONE, Writer, build_user_message, run

SCRIPTS = numbered.migrations("awaken.stores.postgres")
(LOG_DAYS,) = (number for number, it in enumerate(SCRIPTS, 1) if "PARTITION BY RANGE (day)" in it)
THREADS, WRITTEN = 6, 5


@contextmanager
def older_code() -> Iterator[None]:
    """Code that knows nothing of the days of the log."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "migrations", lambda _: SCRIPTS[: LOG_DAYS - 1])
        yield


async def write_step(thread: Writer) -> None:
    name = f"{thread.thread_id}-{thread.version}"
    await thread.commit(
        run=run(name, thread_id=thread.thread_id),
        events=(StepStart(),),
        messages=(build_user_message(f"m-{name}"),),
    )
    ended = run(name, DONE, thread_id=thread.thread_id, finished_at=5)
    await thread.commit(run=ended, events=(StepEnd(),))


async def fill_older_store(name: str) -> tuple[PostgresStore, list[Writer]]:
    """A store of the older version with a log, and its process, which stays open."""
    with older_code():
        old = PostgresStore(server().url, schema=name)
        await old.open()
    threads = [Writer(old, f"thread-{number}") for number in range(THREADS)]
    for thread in threads:
        for _ in range(WRITTEN):
            await write_step(thread)
    return old, threads


async def read_log(store: PostgresStore, thread_id: str) -> list[int]:
    return [entry.seq for entry in await store.list_events(thread_id)]


async def repeat(work: Callable[[], Awaitable[None]], enough: asyncio.Event) -> int:
    """Do something again and again, also once after it is enough; returns how often."""
    count = 0
    while True:
        is_last = enough.is_set()
        await work()
        count += 1
        if is_last:
            return count


def test_writers_and_readers_go_on_while_the_log_is_given_days() -> None:
    async def check() -> None:
        name = new_schema()
        old, threads = await fill_older_store(name)
        (before,) = await server().sql(f"SELECT '{name}.commits'::regclass::oid")
        enough = asyncio.Event()

        async def read_all() -> None:
            for thread in threads:
                # A log never seems shorter than it was when the look at it began.
                least = thread.version
                found = await read_log(old, thread.thread_id)
                assert found == list(range(1, len(found) + 1))
                assert len(found) >= least

        async def write(thread: Writer) -> None:
            await write_step(thread)

        going_on = [
            asyncio.create_task(repeat(lambda it=thread: write(it), enough)) for thread in threads
        ]
        going_on.append(asyncio.create_task(repeat(read_all, enough)))
        async with opened(schema=name) as new:
            await new.list_events("thread-0")
            enough.set()
            counts = await asyncio.gather(*going_on)
            assert min(counts) >= 1
            (after,) = await server().sql(f"SELECT '{name}.commits_first'::regclass::oid")
            # The old table itself is the first partition: no row was copied.
            assert after[0] == before[0]
            for thread in threads:
                # The older process goes on, and so does the newer one on the same thread.
                await write_step(thread)
                thread.store = new
                await write_step(thread)
                expected = list(range(1, thread.version + 1))
                assert await read_log(new, thread.thread_id) == expected
                assert await read_log(old, thread.thread_id) == expected
        await old.close()

    asyncio.run(check())


def test_commits_of_the_older_process_belong_to_the_present_day() -> None:
    async def check() -> None:
        name = new_schema()
        old, threads = await fill_older_store(name)
        async with opened(schema=name):
            await write_step(threads[0])
        await old.close()
        days = await server().sql(f"SELECT day, count(*) FROM {name}.commits GROUP BY 1 ORDER BY 1")
        (today,) = await server().sql("SELECT extract(epoch FROM clock_timestamp())::bigint/86400")
        assert [tuple(row) for row in days] == [(0, THREADS * WRITTEN * 2), (today[0], 2)]

    asyncio.run(check())


def test_the_older_process_can_start_again_purge_and_delete() -> None:
    """Nothing that older code uses was taken away; its own purge works row by row."""

    async def check() -> None:
        name = new_schema()
        old, threads = await fill_older_store(name)
        await old.close()
        async with opened(schema=name):
            pass
        with older_code():
            async with opened(schema=name) as again:
                await write_step(Writer(again, "thread-new"))
                threads[0].store = again
                await write_step(threads[0])
                await again.delete_thread("thread-1")
                assert await again.list_events("thread-1") == ()
        found = await server().sql(f"SELECT count(*) FROM {name}.commits")
        assert found[0][0] == (THREADS - 1) * WRITTEN * 2 + 4

    asyncio.run(check())


@pytest.mark.parametrize("at", range(4))
def test_a_migration_that_is_killed_between_its_steps_is_finished_by_the_next_process(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        name = new_schema()
        old, threads = await fill_older_store(name)
        steps, run_step = 0, schema._run_step

        async def run_some(*args: object, **options: object) -> None:
            nonlocal steps
            if steps == at:
                raise ConnectionResetError
            steps += 1
            await run_step(*args, **options)

        monkeypatch.setattr(schema, "_run_step", run_some)
        with pytest.raises(StoreUnavailable):
            await PostgresStore(server().url, schema=name).open()
        monkeypatch.undo()
        await write_step(threads[0])
        async with opened(schema=name) as new:
            await write_step(threads[0])
            assert await read_log(new, "thread-0") == list(range(1, threads[0].version + 1))
            days = await new.database.read(partitions.look_at_days)
            assert [it.name for it in days.partitions] == ["commits_first"]
        await old.close()

    asyncio.run(check())


def test_the_log_of_before_stays_for_its_time_and_goes_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        name = new_schema()
        old, _ = await fill_older_store(name)
        await old.close()
        async with opened(schema=name) as new:
            now = await new.now_ms()
            assert (await new.purge(now - 3 * partitions.DAY_MS)).partitions == 0
            assert len(await new.list_events("thread-0")) == WRITTEN * 2
            later = now + 4 * partitions.DAY_MS
            set_log_clock(new, later, monkeypatch)
            assert (await new.purge(later - 3 * partitions.DAY_MS)).partitions == 1
            assert await new.list_events("thread-0") == ()
            found = await server().sql(f"SELECT count(*) FROM {name}.commits")
            assert found[0][0] == 0

    asyncio.run(check())
