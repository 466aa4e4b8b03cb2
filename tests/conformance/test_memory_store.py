"""The memory store against the suites that every store must pass, and what only it promises."""

import asyncio

import msgspec
import pytest

from awaken.contracts.errors import IdempotencyConflict, LeaseLost
from awaken.contracts.storage import Commit, OutboxEntry, Store
from awaken.stores.memory import MemoryProfileStore, MemoryStore
from awaken.testing.store_conformance import (
    PROFILE_CHECKS,
    STORE_CHECKS,
    ProfileCheck,
    StoreCheck,
)


def name_of(check: object) -> str:
    return getattr(check, "__name__", "check")


@pytest.mark.parametrize("check", STORE_CHECKS, ids=name_of)
def test_the_memory_store_keeps_every_promise_of_a_store(check: StoreCheck) -> None:
    async def run() -> None:
        store: Store = MemoryStore()
        await store.open()
        await check(store)
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("check", PROFILE_CHECKS, ids=name_of)
def test_the_memory_profile_store_keeps_every_promise_of_a_profile_store(
    check: ProfileCheck,
) -> None:
    asyncio.run(check(MemoryProfileStore()))


def test_every_check_has_its_own_name() -> None:
    names = [name_of(check) for check in (*STORE_CHECKS, *PROFILE_CHECKS)]
    assert len(names) == len(set(names)) >= 60


def commit_at(version: int, **parts: object) -> Commit:
    known = {
        "commit_id": f"commit-{version}",
        "thread_id": "thread-1",
        "expected_version": version,
        "committed_at": 1,
    }
    return Commit(**(known | parts))


def test_a_commit_never_suspends() -> None:
    work = MemoryStore().commit(commit_at(0))
    with pytest.raises(StopIteration):
        work.send(None)


def test_a_stale_fencing_token_changes_nothing() -> None:
    async def run() -> None:
        store = MemoryStore()
        await store.commit(commit_at(0, fencing_token="claim-1"))
        store.fence("thread-1", "claim-2")
        with pytest.raises(LeaseLost):
            await store.commit(commit_at(1, fencing_token="claim-1"))
        assert (await store.load_thread("thread-1")).version == 1
        await store.commit(commit_at(1, fencing_token="claim-2"))
        await store.commit(commit_at(2))

    asyncio.run(run())


def test_a_lost_claim_still_learns_that_its_commit_was_applied() -> None:
    async def run() -> None:
        store = MemoryStore()
        store.fence("thread-1", "claim-1")
        commit = commit_at(0, fencing_token="claim-1")
        receipt = await store.commit(commit)
        store.fence("thread-1", "claim-2")
        assert await store.commit(commit) == receipt

    asyncio.run(run())


def test_an_old_commit_id_is_compared_by_its_expected_version() -> None:
    async def run() -> None:
        store = MemoryStore()
        first = await store.commit(commit_at(0))
        for version in range(1, 40):
            await store.commit(commit_at(version))
        assert await store.commit(commit_at(0)) == first
        with pytest.raises(IdempotencyConflict):
            await store.commit(msgspec.structs.replace(commit_at(0), expected_version=40))

    asyncio.run(run())


def test_the_outbox_follows_the_commits_of_its_thread() -> None:
    async def run() -> None:
        store = MemoryStore()
        entries = [OutboxEntry(entry_id=str(number), kind="mail") for number in range(3)]
        await store.commit(commit_at(0, outbox=tuple(entries[:2])))
        await store.commit(commit_at(1, outbox=tuple(entries[2:])))
        assert store.outbox("thread-1") == tuple(entries)
        await store.delete_thread("thread-1")
        assert store.outbox("thread-1") == ()

    asyncio.run(run())
