"""What the writer thread of SQLite remembers, and how jobs that share a transaction fail."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from awaken.contracts.errors import InvalidResume, VersionConflict
from awaken.contracts.runs.threads import Thread, ThreadMetadata
from awaken.contracts.storage.store import CommitReceipt
from awaken.stores.sql import rows
from awaken.stores.sql.session import SqlSession
from awaken.stores.sqlite import SqliteStore
from awaken.stores.sqlite.writer import GATHERING_TURNS
from awaken.testing.store_conformance.writing import (
    DONE,
    THREAD,
    Writer,
    build_user_message,
    claim_fields,
    dispatch,
    extend,
    run,
    value,
)


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path / "store.db")
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def on_a_file(path: Path, scenario: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def work() -> None:
        async with opened(path) as store:
            await scenario(store)

    asyncio.run(work())


async def count_reads_of_heads(store: SqliteStore, work: Awaitable[object]) -> int:
    """How often the work reads a thread's row in the writer thread."""
    found = []

    def trace(text: str) -> None:
        found.append("FROM threads WHERE id" in text)

    writer = store.database._writer
    assert writer is not None
    assert writer._connection is not None
    writer._connection.set_trace_callback(trace)
    await work
    writer._connection.set_trace_callback(None)
    return sum(found)


def test_a_commit_does_not_read_what_the_commit_before_it_left(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        writer, other = Writer(store), Writer(store, "other")
        await writer.commit(run=run(), **claim_fields())
        await other.commit(messages=(build_user_message("m-1"),))
        again = writer.commit(run=run(steps=1), fencing_token="token-f")
        assert await count_reads_of_heads(store, again) == 0

    on_a_file(tmp_path, scenario)


def test_a_commit_sees_what_another_process_has_committed(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        async with opened(tmp_path) as elsewhere:
            here, there = Writer(store), Writer(elsewhere)
            await here.commit(messages=(build_user_message("m-1"),))
            there.version = 1
            await there.commit(messages=(build_user_message("m-2"),))
            late = {"commit_id": "late", "messages": (build_user_message("m-3"),)}
            await here.expect_refusal(VersionConflict, **late)
            here.version = 2
            assert (await here.commit(messages=(build_user_message("m-3"),))).message_count == 3
            there.version = 3
            assert (await there.commit(messages=(build_user_message("m-4"),))).message_count == 4

    on_a_file(tmp_path, scenario)


def test_a_commit_keeps_what_other_calls_of_its_process_have_written(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        writer = Writer(store)
        await writer.commit(run=run(), **claim_fields())
        titled = Thread(id=THREAD, metadata=ThreadMetadata(title="Rome"))
        await store.save_thread(titled)
        await writer.commit(run=run(steps=1), fencing_token="token-f")
        found = await store.load_thread(THREAD)
        assert found is not None
        assert found.metadata.title == "Rome"

    on_a_file(tmp_path, scenario)


def test_extending_a_lease_takes_nothing_from_a_commit(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        writer = Writer(store)
        await writer.commit(run=run(), **claim_fields())
        assert [it.is_held for it in await extend(store, "token-f")] == [True]
        await writer.commit(run=run(steps=1), fencing_token="token-f")
        assert [it.is_held for it in await extend(store, "token-f")] == [True]

    on_a_file(tmp_path, scenario)


async def run_in_one_batch(
    store: SqliteStore, *works: Awaitable[CommitReceipt]
) -> list[CommitReceipt | BaseException]:
    """Run work in one transaction: the writer is busy until all of it waits."""
    is_queued = threading.Event()

    async def wait(_session: SqlSession) -> None:
        is_queued.wait(30)

    blocker = asyncio.ensure_future(store.database.write(wait))
    await asyncio.sleep(0)
    tasks = [asyncio.ensure_future(work) for work in works]
    await asyncio.sleep(0)
    is_queued.set()
    await blocker
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_a_job_that_fails_late_leaves_nothing_and_takes_nothing_from_its_batch(
    tmp_path: Path,
) -> None:
    async def scenario(store: SqliteStore) -> None:
        first, bad, last = (Writer(store, name) for name in ("first", "bad", "last"))
        await first.commit(messages=(build_user_message("m-0"),))
        # Only when the run is written does the store see that its id is taken.
        await store.enqueue(dispatch("d-1", "elsewhere", run_id="taken"))
        await bad.commit(messages=(build_user_message("m-0"),))
        taken = run("taken", thread_id="bad")
        outcomes = await run_in_one_batch(
            store,
            first.commit(messages=(build_user_message("m-1"),)),
            bad.commit(messages=(build_user_message("m-1"),), run=taken),
            last.commit(messages=(build_user_message("m-1"),)),
            bad.commit(messages=(build_user_message("m-1"),)),
        )
        assert [type(it) for it in outcomes] == [
            CommitReceipt,
            InvalidResume,
            CommitReceipt,
            CommitReceipt,
        ]
        for writer, count in ((first, 2), (bad, 2), (last, 1)):
            found = await store.checkout(writer.thread_id)
            assert found is not None
            assert (found.thread.version, len(found.messages)) == (count, count)
            assert found.latest_run is None
            receipt = await writer.commit(messages=(build_user_message("m-9"),))
            assert (receipt.version, receipt.message_count) == (count + 1, count + 1)
        assert (await store.check()).problems == ()

    on_a_file(tmp_path, scenario)


def test_a_job_that_fails_alone_leaves_nothing(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        writer = Writer(store)
        await store.enqueue(dispatch("d-1", "elsewhere", run_id="taken"))
        await writer.commit(messages=(build_user_message("m-1"),))
        await writer.expect_refusal(
            InvalidResume, messages=(build_user_message("m-2"),), run=run("taken")
        )
        assert (await writer.commit(messages=(build_user_message("m-2"),))).message_count == 2

    on_a_file(tmp_path, scenario)


def test_an_id_that_a_run_has_made_is_refused_when_it_is_used_for_a_second_run(
    tmp_path: Path,
) -> None:
    """It is not looked up: the insert finds it."""
    made = "01890a5d-ac96-774b-bcce-b302099a8057"

    async def scenario(store: SqliteStore) -> None:
        writer, other = Writer(store), Writer(store, "other")
        await writer.commit(run=run(made))
        await other.expect_refusal(InvalidResume, run=run(made, thread_id="other"))
        await writer.commit(run=run(made, status=DONE))
        await writer.commit(run=run("run-2", status=DONE))
        await writer.expect_refusal(InvalidResume, run=run(made))
        assert (await store.check()).problems == ()

    on_a_file(tmp_path, scenario)


def test_the_end_of_a_run_removes_run_state_that_an_earlier_version_wrote(tmp_path: Path) -> None:
    """Its heads did not say whether there is any."""

    async def scenario(store: SqliteStore) -> None:
        writer = Writer(store)
        await writer.commit(run=run(), run_state={"plan": value("1")})

        async def forget(session: SqlSession) -> None:
            row = await session.one("find_thread", THREAD)
            assert row is not None
            beside = (row[16], row[1], row[2], row[3], row[5], row[17])
            kept = rows.unpack(row[8], rows.ANY, "the head", *beside)
            edit = (row[5], row[5], row[6], row[7], rows.pack(kept[:-1], *beside))
            await session.run("save_edit", row[0], *edit)

        await store.database.write(forget)
        await writer.commit(run=run(status=DONE))

        async def count_state(session: SqlSession) -> int:
            return len(await session.all("list_state", 1))

        assert await store.database.read(count_state) == 0

    on_a_file(tmp_path, scenario)


def test_what_a_caller_changes_after_a_commit_is_in_no_later_one(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        writer, custom = Writer(store), {"a": 1}
        named = Thread(id=writer.thread_id, metadata=ThreadMetadata(custom=custom))
        await writer.commit(thread=named)
        custom["a"] = 2
        await writer.commit(messages=(build_user_message("m-1"),))
        thread = await store.load_thread(writer.thread_id)
        assert thread is not None
        assert thread.metadata.custom == {"a": 1}

    on_a_file(tmp_path, scenario)


def count_transactions(store: SqliteStore) -> int:
    writer = store.database._writer
    assert writer is not None
    assert writer._session is not None
    return writer._session.batch


async def write_together(store: SqliteStore) -> None:
    """Let two jobs share a transaction: from then on the store gathers jobs."""
    works = (Writer(store, name).commit(run=None) for name in ("one", "other"))
    await run_in_one_batch(store, *works)


def test_jobs_of_several_turns_of_the_loop_share_a_transaction_if_many_tasks_write(
    tmp_path: Path,
) -> None:
    async def scenario(store: SqliteStore) -> None:
        await write_together(store)
        before = count_transactions(store)

        async def commit_later(turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await Writer(store, f"later-{turns}").commit(run=None)

        await asyncio.gather(*(commit_later(turns) for turns in range(GATHERING_TURNS)))
        assert count_transactions(store) == before + 1

    on_a_file(tmp_path, scenario)


def test_jobs_wait_for_others_for_a_bounded_number_of_turns(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await write_together(store)
        writer = store.database._writer
        assert writer is not None
        tasks = []
        for number in range(GATHERING_TURNS + 4):
            # Each turn of the loop brings one more.
            commit = Writer(store, f"thread-{number}").commit(run=None)
            tasks.append(asyncio.ensure_future(commit))
            await asyncio.sleep(0)
        assert sum(map(len, writer._gathered.values())) < GATHERING_TURNS
        await asyncio.gather(*tasks)

    on_a_file(tmp_path, scenario)


def test_a_job_of_a_task_that_writes_alone_is_handed_over_at_once(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await write_together(store)
        alone = Writer(store, "alone")
        await alone.commit(run=None)
        writer = store.database._writer
        assert writer is not None
        task = asyncio.ensure_future(alone.commit(run=None))
        await asyncio.sleep(0)
        assert writer._gathered == {}
        await task

    on_a_file(tmp_path, scenario)


def test_jobs_that_are_gathered_when_the_store_is_closed_are_written(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await write_together(store)
        tasks = [
            asyncio.ensure_future(Writer(store, f"last-{n}").commit(run=None)) for n in range(3)
        ]
        await asyncio.sleep(0)
        writer = store.database._writer
        assert writer is not None
        assert sum(map(len, writer._gathered.values())) == len(tasks)
        await store.close()
        async with asyncio.timeout(30):
            assert [it.version for it in await asyncio.gather(*tasks)] == [1, 1, 1]

    on_a_file(tmp_path, scenario)
