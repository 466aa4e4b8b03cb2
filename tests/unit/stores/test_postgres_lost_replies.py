"""Broken connections and cancelled tasks: a write is whole or absent, and can be found."""

import asyncio
from collections import Counter

import pytest
from tests.postgres.proxy import COMMIT, Proxy, proxied
from tests.postgres.server import new_schema, server
from tests.postgres.stores import opened
from tests.postgres.writing import commit_at, message_ids

from awaken.contracts.errors import StorageError, StoreUnavailable
from awaken.contracts.storage.store import Commit
from awaken.stores.postgres import PostgresStore
from awaken.testing.store_conformance.writing import claim_fields, dispatch, refusal, run

CUTS = 20


@pytest.mark.parametrize(("cut", "is_applied"), [("before", False), ("after", True)])
def test_a_commit_whose_reply_is_lost_is_found_by_its_id(cut: str, is_applied: bool) -> None:
    async def check() -> None:
        async with proxied() as proxy, opened(url=proxy.url) as store:
            for number in range(CUTS):
                thread_id = f"thread-{number % 2}"
                version = (await version_of(store, thread_id)) or 0
                commit = commit_at(version, f"c-{number}", thread_id)
                # On a known thread two ways are tried, one after the other.
                proxy.cut = proxy.cut_guess = cut
                raised = await refusal(StoreUnavailable, store.commit(commit))
                assert "unknown" in str(raised)
                assert store.name in str(raised)
                receipt = await store.find_commit(commit.commit_id, thread_id)
                assert (receipt is not None) is is_applied
                # Sent again it is applied once, whatever became of it before.
                again = await store.commit(commit)
                assert receipt in (None, again)
                assert again.version == version + 1
            assert proxy.cuts == CUTS
            assert proxy.cut_guesses == CUTS - 2
            for thread_id in ("thread-0", "thread-1"):
                ids = await message_ids(store, thread_id)
                assert len(ids) == len(set(ids)) == CUTS // 2

    asyncio.run(check())


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_commit_of_one_statement_whose_reply_is_lost_is_applied_once_unseen(cut: str) -> None:
    async def check() -> None:
        async with proxied() as proxy, opened(url=proxy.url) as store:
            await store.commit(commit_at(0, "c-0"))
            for number in range(1, CUTS):
                proxy.cut_guess = cut
                receipt = await store.commit(commit_at(number, f"c-{number}"))
                assert receipt.version == number + 1
            assert proxy.cut_guesses == CUTS - 1
            assert await message_ids(store) == [f"c-{number}" for number in range(CUTS)]

    asyncio.run(check())


def test_a_commit_that_is_still_under_way_is_waited_for() -> None:
    async def check() -> None:
        schema = new_schema()
        async with proxied() as proxy, opened(url=proxy.url, schema=schema) as store:
            assert await store.checkout("thread-1") is None
            async with opened(schema=schema) as other:
                await held_commit(proxy, store, commit_at(0, "c-1"))
                finding = asyncio.create_task(other.find_commit("c-1", "thread-1"))
                await server().until_waiting()
                assert not finding.done()
                proxy.hold.set()
                receipt = await finding
                assert receipt is not None
                assert receipt.version == 1

    asyncio.run(check())


def test_a_commit_that_arrives_after_it_was_not_found_is_never_applied() -> None:
    async def check() -> None:
        schema = new_schema()
        async with proxied() as proxy, opened(url=proxy.url, schema=schema) as store:
            for number in range(2):
                await store.commit(commit_at(number, f"c-{number}"))
            async with opened(schema=schema) as other:
                await held_commit(proxy, store, commit_at(2, "c-2"))
                assert await other.find_commit("c-2", "thread-1") is None
                proxy.hold.set()
                # The connection of the cancelled task ends when the server has read all of it.
                while len(await server().sessions()) > 1:
                    await asyncio.sleep(0.01)
                assert await other.find_commit("c-2", "thread-1") is None
                assert await message_ids(other) == ["c-0", "c-1"]

    asyncio.run(check())


def test_asking_for_a_commit_leaves_no_thread_behind() -> None:
    async def check() -> None:
        async with opened() as store:
            assert await store.find_commit("c-1", "thread-1") is None
            assert await store.load_thread("thread-1") is None
            await store.commit(commit_at(0, "c-1"))
            assert await store.find_commit("c-2", "thread-1") is None
            assert await message_ids(store) == ["c-1"]

    asyncio.run(check())


def test_a_dispatch_whose_reply_is_lost_is_queued_once() -> None:
    async def check() -> None:
        async with proxied() as proxy, opened(url=proxy.url) as store:
            for number, cut in enumerate(("before", "after") * 3):
                proxy.cut = proxy.cut_guess = cut
                wanted = dispatch(f"d-{number}", dedupe_key=f"key-{number}")
                await refusal(StoreUnavailable, store.enqueue(wanted))
                await store.enqueue(wanted)
            assert await store.count_queued() == 6

    asyncio.run(check())


def test_connections_that_died_while_idle_are_replaced_unseen() -> None:
    async def check() -> None:
        async with proxied() as proxy, opened(url=proxy.url) as store:
            for number in range(5):
                await asyncio.gather(*(store.load_thread("thread-1") for _ in range(6)))
                proxy.abort_all()
                # The loop has not had a chance to see that they are gone.
                await store.commit(commit_at(number, f"c-{number}"))
            assert len(await message_ids(store)) == 5

    asyncio.run(check())


def test_a_half_open_connection_is_given_up_in_time_and_replaced() -> None:
    async def check() -> None:
        # They bound healthy writes too, which a busy machine may delay by a second.
        hasty = {"connect_timeout_ms": 2_000, "command_timeout_ms": 2_000}
        async with proxied() as proxy, opened(url=proxy.url, **hasty) as store:
            await store.commit(commit_at(0, "c-0"))
            proxy.is_mute = True
            async with asyncio.timeout(30):
                raised = await refusal(StoreUnavailable, store.commit(commit_at(1, "c-1")))
            assert store.name in str(raised)
            proxy.is_mute = False
            await store.commit(commit_at(1, "c-1"))
            proxy.abort_all()

    asyncio.run(check())


def test_a_write_cancelled_anywhere_is_whole_or_absent_and_leaves_nothing_behind() -> None:
    async def check() -> None:
        schema = new_schema()
        async with proxied() as proxy, opened(url=proxy.url, schema=schema, pool_size=2) as store:
            outcomes = Counter[str]()
            for number, point in enumerate([*range(1, 24), "commit"]):
                thread_id = f"thread-{number}"
                commit = commit_at(
                    0,
                    "c-1",
                    thread_id,
                    run=run(f"r-{number}", thread_id=thread_id),
                    **claim_fields(),
                )
                outcomes[await cancelled_at(proxy, store, commit, point)] += 1
                found = await store.find_commit("c-1", thread_id)
                assert (found is None) == (await message_ids(store, thread_id) == [])
                outcomes["absent" if found is None else "applied"] += 1
                again = await store.commit(commit)
                assert again.version == 1
            # Otherwise the points were not where they should be.
            assert outcomes["cancelled"] >= 10
            assert outcomes["absent"] >= 8
            assert outcomes["applied"] >= 1
            assert await idle_in_transaction() == []
            pool = store.database._pool
            assert pool is not None
            assert pool._slots._value == 2
            assert len(await server().sessions()) <= 2

    asyncio.run(check())


def test_reads_cancelled_anywhere_give_their_connection_back() -> None:
    async def check() -> None:
        async with opened(pool_size=2) as store:
            await store.commit(commit_at(0, "c-1"))
            for steps in range(60):
                reading = asyncio.create_task(store.checkout("thread-1"))
                for _ in range(steps):
                    await asyncio.sleep(0)
                reading.cancel()
                await asyncio.wait([reading])
            assert await message_ids(store) == ["c-1"]
            pool = store.database._pool
            assert pool is not None
            assert pool._slots._value == 2
        await server().until_alone()

    asyncio.run(check())


def test_opening_cancelled_anywhere_leaves_no_connection_behind() -> None:
    async def check() -> None:
        schema = new_schema()
        for steps in range(0, 120, 3):
            store = PostgresStore(server().url, schema=schema)
            opening = asyncio.create_task(store.open())
            for _ in range(steps):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait([opening])
            await store.close()
        await server().until_alone()
        async with opened(schema=schema) as store:
            await store.commit(commit_at(0, "c-1"))

    asyncio.run(check())


def test_closing_waits_for_work_that_runs() -> None:
    async def check() -> None:
        async with proxied() as proxy, opened(url=proxy.url) as store:
            proxy.hold.clear()
            writing = asyncio.create_task(store.commit(commit_at(0, "c-1")))
            await proxy.held.wait()
            closing = asyncio.create_task(store.close())
            await asyncio.sleep(0)
            await refusal(StoreUnavailable, store.load_thread("thread-1"))
            proxy.hold.set()
            assert (await writing).version == 1
            await closing
        await server().until_alone()

    asyncio.run(check())


async def version_of(store: PostgresStore, thread_id: str) -> int | None:
    thread = await store.load_thread(thread_id)
    return None if thread is None else thread.version


async def held_commit(proxy: Proxy, store: PostgresStore, commit: Commit) -> None:
    """A commit that was sent and has not arrived, while its sender was cancelled."""
    proxy.hold.clear()
    writing = asyncio.create_task(store.commit(commit))
    await proxy.held.wait()
    writing.cancel()
    await asyncio.wait([writing])


async def cancelled_at(proxy: Proxy, store: PostgresStore, commit: Commit, point: int | str) -> str:
    """Cancel a commit when the server gets its n-th request, or its COMMIT."""
    seen = 0

    def look(data: bytes) -> None:
        nonlocal seen
        seen += 1
        if seen == point or (point == "commit" and COMMIT in data):
            writing.cancel()

    writing = asyncio.create_task(store.commit(commit))
    proxy.on_request = look
    await asyncio.wait([writing])
    proxy.on_request = lambda _: None
    if writing.cancelled():
        return "cancelled"
    assert not isinstance(writing.exception(), StorageError)
    return "too late"


async def idle_in_transaction() -> list[str]:
    async with asyncio.timeout(10):
        while True:
            found = [
                row["query"]
                for row in await server().sessions()
                if "transaction" in (row["state"] or "")
            ]
            if not found:
                return found
            await asyncio.sleep(0.01)
