"""Many writers and readers at once, and writers that are cancelled.

No check waits for time: they yield to each other and are bounded by their own counts.
"""

import asyncio

from awaken.contracts.errors import StorageError, ThreadBusy, VersionConflict
from awaken.contracts.events import StepEnd
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import LIMIT_MAX, MessageQuery, ThreadQuery
from awaken.contracts.storage.store import Commit, CommitReceipt, Store

from .writing import THREAD, Writer, build_user_message, run, value

WRITERS, MESSAGES = 8, 12


async def concurrent_writers_lose_nothing(store: Store) -> None:
    """Each message is there once, each writer's own order is kept."""
    await asyncio.gather(*(_append(store, name) for name in range(WRITERS)))
    seen = await store.checkout(THREAD)
    assert seen is not None
    ids = [message.id or "" for message in seen.messages]
    assert seen.thread.version == len(ids) == WRITERS * MESSAGES
    for name in range(WRITERS):
        own = [message_id for message_id in ids if message_id.startswith(f"{name}:")]
        assert own == [f"{name}:{number}" for number in range(MESSAGES)]
    listed = await store.list_messages(THREAD, MessageQuery(limit=LIMIT_MAX))
    assert [record.seq for record in listed.items] == list(range(1, WRITERS * MESSAGES + 1))


async def _append(store: Store, name: int) -> None:
    """Add a writer's messages, trying again after each conflict."""
    for number in range(MESSAGES):
        message = build_user_message(f"{name}:{number}")
        while True:
            thread = await store.load_thread(THREAD)
            writer = Writer(store)
            writer.version = thread.version if thread is not None else 0
            await asyncio.sleep(0)
            try:
                await writer.commit(commit_id=f"{name}:{number}", messages=(message,))
                break
            except VersionConflict:
                continue


async def one_of_many_rivals_wins(store: Store) -> None:
    """Of commits that expect the same version exactly one is applied, the rest conflict."""
    for version in range(3):
        rivals = [
            Commit(
                commit_id=f"{version}:{name}",
                thread_id=THREAD,
                expected_version=version,
                committed_at=1,
                messages=(build_user_message(f"{version}:{name}"),),
            )
            for name in range(WRITERS)
        ]
        outcomes = await asyncio.gather(*map(store.commit, rivals), return_exceptions=True)
        won = [outcome for outcome in outcomes if isinstance(outcome, CommitReceipt)]
        lost = [outcome for outcome in outcomes if isinstance(outcome, VersionConflict)]
        assert (len(won), len(lost)) == (1, WRITERS - 1)
        seen = await store.checkout(THREAD)
        assert seen is not None
        assert seen.messages[-1].id == won[0].commit_id
        assert len(seen.messages) == seen.thread.version == version + 1


async def one_of_many_runs_starts(store: Store) -> None:
    """Of rival runs exactly one is recorded."""
    rivals = [Writer(store).next(commit_id=f"c-{n}", run=run(f"run-{n}")) for n in range(WRITERS)]
    outcomes = await asyncio.gather(*map(store.commit, rivals), return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, StorageError | ThreadBusy)]
    assert len(refused) == WRITERS - 1
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert seen.open_run is not None
    recorded = [await store.load_run(f"run-{number}") for number in range(WRITERS)]
    assert [found for found in recorded if found is not None] == [seen.open_run]


async def the_same_commit_sent_many_times_is_applied_once(store: Store) -> None:
    """All senders get the same receipt."""
    commit = Writer(store).next(messages=(build_user_message("m-1"),), events=(StepEnd(),))
    receipts = await asyncio.gather(*(store.commit(commit) for _ in range(WRITERS)))
    assert receipts == [receipts[0]] * WRITERS
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert (seen.thread.version, len(seen.messages)) == (1, 1)
    assert len(await store.list_events(THREAD)) == 1


async def a_reader_never_sees_half_a_commit(store: Store) -> None:
    """Messages, state, run and version of one view belong together."""
    writer = Writer(store)
    is_over = asyncio.Event()

    async def write() -> None:
        for number in range(1, 101):
            await writer.commit(
                messages=(build_user_message(f"a-{number}"), build_user_message(f"b-{number}")),
                state={"count": value(str(number))},
                run=run(steps=number),
                events=(StepEnd(),),
            )
            await asyncio.sleep(0)
        is_over.set()

    async def read() -> None:
        while not is_over.is_set():
            seen = await store.checkout(THREAD)
            events = await store.list_events(THREAD)
            if seen is not None:
                number = seen.thread.version
                assert seen.state == {"count": value(str(number))}
                assert seen.open_run == run(steps=number)
                assert len(seen.messages) == seen.thread.message_count == 2 * number
                assert len(events) >= number
            await asyncio.sleep(0)

    await asyncio.gather(write(), *(read() for _ in range(3)))
    assert writer.version == len(await store.list_events(THREAD)) == 100


async def threads_do_not_disturb_each_other(store: Store) -> None:
    """Writers on many threads, with saves and listings between, see no conflict."""

    async def converse(thread_id: str) -> None:
        writer = Writer(store, thread_id)
        for number in range(MESSAGES):
            await writer.commit(messages=(build_user_message(f"m-{number}"),))
            await store.save_thread(Thread(id=thread_id, resource_id="ann"))
            await store.list_threads(ThreadQuery(resource_id="ann"))

    names = [f"thread-{number}" for number in range(WRITERS)]
    await asyncio.gather(*map(converse, names))
    for name in names:
        seen = await store.checkout(name)
        assert seen is not None
        assert len(seen.messages) == seen.thread.version == MESSAGES
        assert seen.thread.resource_id == "ann"


async def a_cancelled_commit_is_whole_or_absent(store: Store) -> None:
    """The writer can find out which, and the thread goes on."""
    writer = Writer(store)
    for number in range(20):
        commit = writer.next(
            commit_id=f"commit-{number}",
            messages=(build_user_message(f"m-{number}"),),
            events=(StepEnd(),),
        )
        task = asyncio.create_task(store.commit(commit))
        for _ in range(number % 4):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        receipt = await store.find_commit(commit.commit_id, THREAD)
        if receipt is None:
            receipt = await store.commit(commit)
        writer.version = receipt.version
    seen = await store.checkout(THREAD)
    assert seen is not None
    assert [message.id for message in seen.messages] == [f"m-{number}" for number in range(20)]
    assert len(await store.list_events(THREAD)) == seen.thread.version == 20


CHECKS = (
    concurrent_writers_lose_nothing,
    one_of_many_rivals_wins,
    one_of_many_runs_starts,
    the_same_commit_sent_many_times_is_applied_once,
    a_reader_never_sees_half_a_commit,
    threads_do_not_disturb_each_other,
    a_cancelled_commit_is_whole_or_absent,
)
