"""Many writers, claimers and processes at once on one Postgres database."""

import asyncio
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.postgres.server import new_schema, server
from tests.postgres.stores import opened
from tests.postgres.writing import append_many, commit_at, message_ids

from awaken.contracts.errors import (
    InvalidRecord,
    InvalidResume,
    RecordNotFound,
    StorageError,
    StoreUnavailable,
    VersionConflict,
)
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.store import CommitReceipt, DeleteStrategy, StreamCheckpoint
from awaken.stores.postgres.database import ATTEMPTS
from awaken.stores.sql.session import SqlSession
from awaken.testing.store_conformance.writing import claim_fields, dispatch, refusal, run

ROOT = Path(__file__).parents[3]
WRITERS, MESSAGES = 8, 10


def test_writers_of_two_processes_lose_nothing_on_one_thread() -> None:
    async def check() -> None:
        async with opened(schema=new_schema()) as store:
            schema = store.database._server.schema
            ended = await asyncio.gather(*(writer_process(schema, name) for name in ("a", "b")))
            assert ended == [0, 0]
            ids = await message_ids(store)
        assert len(ids) == len(set(ids)) == 2 * WRITERS * MESSAGES
        for own in (f"{name}:{writer}:" for name in "ab" for writer in range(WRITERS)):
            numbers = [int(one.removeprefix(own)) for one in ids if one.startswith(own)]
            assert numbers == list(range(MESSAGES))

    asyncio.run(check())


def test_writers_of_two_pools_lose_nothing_on_one_thread() -> None:
    async def check() -> None:
        schema = new_schema()
        async with opened(schema=schema, pool_size=3) as one, opened(schema=schema) as two:
            await asyncio.gather(append_many(one, "a", 4, 8), append_many(two, "b", 4, 8))
            ids = await message_ids(one)
            assert len(ids) == len(set(ids)) == 64
            assert ids == await message_ids(two)

    asyncio.run(check())


def test_of_many_who_make_a_thread_at_once_one_writes_first() -> None:
    async def check() -> None:
        schema = new_schema()
        async with opened(schema=schema) as one, opened(schema=schema) as two:
            for attempt in range(10):
                thread_id = f"thread-{attempt}"
                rivals = [
                    store.commit(commit_at(0, f"{name}:{n}", thread_id))
                    for n in range(6)
                    for name, store in (("a", one), ("b", two))
                ]
                outcomes = await asyncio.gather(*rivals, return_exceptions=True)
                kinds = Counter(map(type, outcomes))
                assert kinds == {CommitReceipt: 1, VersionConflict: 11}

    asyncio.run(check())


def test_a_thread_that_is_made_and_deleted_all_the_time_never_confuses_a_writer() -> None:
    async def check() -> None:
        async with opened() as store:

            async def write(name: int) -> None:
                for number in range(15):
                    try:
                        await store.commit(commit_at(0, f"{name}:{number}"))
                    except VersionConflict:
                        continue

            async def delete() -> None:
                for _ in range(30):
                    try:
                        await store.delete_thread("thread-1")
                    except RecordNotFound:
                        continue

            await asyncio.gather(*map(write, range(4)), delete(), delete())

    asyncio.run(check())


@pytest.mark.parametrize("attempt", range(3))
def test_an_id_that_two_threads_use_at_once_belongs_to_one_of_them(attempt: int) -> None:
    async def check() -> None:
        async with opened() as store:
            for number in range(10):
                run_id = f"run-{attempt}-{number}"
                rivals = (
                    commit_at(
                        0,
                        f"c-{name}",
                        f"{name}-{number}",
                        run=run(run_id, thread_id=f"{name}-{number}"),
                    )
                    for name in "abc"
                )
                outcomes = await asyncio.gather(*map(store.commit, rivals), return_exceptions=True)
                # Found by a lookup, or by the insert.
                refused = [it for it in outcomes if isinstance(it, InvalidRecord | InvalidResume)]
                receipts = [it for it in outcomes if isinstance(it, CommitReceipt)]
                assert (len(receipts), len(refused)) == (1, 2)

    asyncio.run(check())


def test_two_threads_cannot_become_each_others_parent() -> None:
    async def check() -> None:
        async with opened() as store:
            for number in range(5):
                a, b = f"a-{number}", f"b-{number}"
                await store.save_thread(Thread(id=a))
                await store.save_thread(Thread(id=b))
                outcomes = await asyncio.gather(
                    store.save_thread(Thread(id=a, parent_thread_id=b)),
                    store.save_thread(Thread(id=b, parent_thread_id=a)),
                    return_exceptions=True,
                )
                assert Counter(map(type, outcomes)) == {Thread: 1, InvalidRecord: 1}

    asyncio.run(check())


@pytest.mark.parametrize("strategy", list(DeleteStrategy))
def test_no_thread_keeps_a_parent_that_was_deleted_meanwhile(strategy: DeleteStrategy) -> None:
    async def check() -> None:
        async with opened() as store:
            for number in range(12):
                parent, child = f"parent-{number}", f"child-{number}"
                await store.save_thread(Thread(id=parent))
                await asyncio.gather(
                    store.commit(
                        commit_at(0, "c", child, thread=Thread(id=child, parent_thread_id=parent))
                    ),
                    store.delete_thread(parent, strategy),
                    return_exceptions=True,
                )
                found = await store.load_thread(child)
                if found is not None and found.parent_thread_id is not None:
                    assert await store.load_thread(parent) is not None

    asyncio.run(check())


def test_a_child_that_was_moved_away_is_not_deleted_with_its_old_parent() -> None:
    async def check() -> None:
        async with opened() as store:
            await store.save_thread(Thread(id="parent"))
            await store.save_thread(Thread(id="child", parent_thread_id="parent"))
            moved, leave = asyncio.Event(), asyncio.Event()

            async def move(session: SqlSession) -> None:
                await session.one("lock_thread", "child")
                await session.run("detach_children", "parent")
                moved.set()
                await leave.wait()

            moving = asyncio.create_task(store.database.write(move))
            await moved.wait()
            deleting = asyncio.create_task(store.delete_thread("parent", DeleteStrategy.CASCADE))
            await server().until_waiting()
            leave.set()
            await asyncio.gather(moving, deleting)
            assert await store.load_thread("parent") is None
            assert await store.load_thread("child") is not None

    asyncio.run(check())


def test_claimers_that_race_never_get_one_dispatch_twice() -> None:
    async def check() -> None:
        schema = new_schema()
        async with opened(schema=schema) as one, opened(schema=schema) as two:
            ids = [f"d-{number}" for number in range(64)]
            for number, name in enumerate(ids):
                await one.enqueue(dispatch(name, f"thread-{number % 40}"))
            got: list[str] = []

            async def work(claimer: int) -> None:
                store, round_no = (one, two)[claimer % 2], 0
                while await store.count_queued():
                    round_no += 1
                    token = f"{claimer}:{round_no}"
                    for taken in await store.claim("worker", token, 60_000, limit=3):
                        got.append(taken.dispatch_id)
                        assert taken.attempt_count == 1
                        await store.release(taken.dispatch_id, taken.claim_token or "")

            await asyncio.gather(*map(work, range(8)))
            assert Counter(got) == Counter(ids)

    asyncio.run(check())


def test_a_claimer_does_not_wait_for_a_thread_that_somebody_writes_to() -> None:
    async def check() -> None:
        async with opened() as store:
            await store.enqueue(dispatch("d-1", "thread-1"))
            await store.enqueue(dispatch("d-2", "thread-2"))
            entered, leave = asyncio.Event(), asyncio.Event()

            async def work(session: SqlSession) -> None:
                await session.one("lock_thread", "thread-1")
                entered.set()
                await leave.wait()

            busy = asyncio.create_task(store.database.write(work))
            await entered.wait()
            (taken,) = await store.claim("worker", "token", 60_000, limit=5)
            assert taken.dispatch_id == "d-2"
            leave.set()
            await busy

    asyncio.run(check())


def test_reclaimers_that_race_take_a_claim_back_once() -> None:
    async def check() -> None:
        schema = new_schema()
        async with opened(schema=schema) as one, opened(schema=schema) as two:
            for number in range(10):
                await one.enqueue(dispatch(f"d-{number}", f"thread-{number}"))
            assert len(await one.claim("worker", "token", 0, limit=10)) == 10
            found = await asyncio.gather(*(store.reclaim() for store in (one, two) * 3))
            back = Counter(taken.dispatch_id for part in found for taken in part)
            assert back == Counter(f"d-{number}" for number in range(10))

    asyncio.run(check())


def test_a_checkpoint_waits_for_whoever_takes_the_thread() -> None:
    async def check() -> None:
        async with opened() as store:
            await store.commit(commit_at(0, "c-1", run=run(), **claim_fields("old", 0)))
            await store.reclaim()
            entered, leave = asyncio.Event(), asyncio.Event()

            async def take(session: SqlSession) -> None:
                row = await session.one("lock_thread", "thread-1")
                assert row is not None
                await session.run("take_claim", row[0], "new", "worker", None, None, 2**60)
                entered.set()
                await leave.wait()

            taking_over = asyncio.create_task(store.database.write(take))
            await entered.wait()
            checkpoint = StreamCheckpoint(
                run_id="run-1", thread_id="thread-1", step=1, message_id="m"
            )
            saving = asyncio.create_task(store.save_checkpoint(checkpoint))
            await server().until_waiting()
            leave.set()
            await taking_over
            await refusal(StorageError, saving)
            assert await store.find_checkpoint("run-1") is None

    asyncio.run(check())


def test_work_that_lost_a_deadlock_is_tried_again() -> None:
    async def check() -> None:
        async with opened() as store:
            for thread_id in ("a", "b"):
                await store.save_thread(Thread(id=thread_id))
            tries: list[str] = []
            met = asyncio.Barrier(2)

            async def lock_both(session: SqlSession, first: str, second: str) -> None:
                tries.append(first)
                await session.one("lock_thread", first)
                if len(tries) <= 2:
                    await met.wait()
                await session.one("lock_thread", second)

            await asyncio.gather(
                store.database.write(lambda session: lock_both(session, "a", "b")),
                store.database.write(lambda session: lock_both(session, "b", "a")),
            )
            # A retry may lose again while the other transaction ends; both complete in the end.
            assert 2 < len(tries) <= 2 * ATTEMPTS

    asyncio.run(check())


def test_work_that_always_loses_is_given_up() -> None:
    async def check() -> None:
        async with opened(pool_size=1) as store:
            tries = 0

            async def work(session: SqlSession) -> None:
                nonlocal tries
                tries += 1
                await session.run("save_thread_twice")

            async def fail(session: SqlSession) -> None:
                nonlocal tries
                tries += 1
                await session._connection.execute("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")

            await refusal(StoreUnavailable, store.database.write(fail))
            assert tries == ATTEMPTS
            with pytest.raises(KeyError):
                await store.database.write(work)
            assert await store.load_thread("thread-1") is None

    asyncio.run(check())


async def writer_process(schema: str, name: str) -> int:
    args = (server().url, schema, name, str(WRITERS), str(MESSAGES))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.postgres.writing", *args),
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    return await process.wait()
