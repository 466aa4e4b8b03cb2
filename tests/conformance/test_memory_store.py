"""The memory store against the suites that every store must pass, and what only it promises."""

import asyncio

import msgspec
import pytest

from awaken.contracts.errors import IdempotencyConflict
from awaken.contracts.storage.dispatch import Claim
from awaken.contracts.storage.store import Commit, Store
from awaken.stores.memory import MemoryProfileStore, MemoryStore
from awaken.testing import FakeClock
from awaken.testing.store_conformance import (
    CONFIG_CHECKS,
    EVAL_CHECKS,
    MEMORY_CHECKS,
    PROFILE_CHECKS,
    SCHEDULE_CHECKS,
    STORE_CHECKS,
    ConfigCheck,
    EvalCheck,
    MemoryCheck,
    ProfileCheck,
    ScheduleCheck,
    StoreCheck,
)


def name_of(check: object) -> str:
    return getattr(check, "__name__", "check")


@pytest.mark.parametrize("check", STORE_CHECKS, ids=name_of)
def test_the_memory_store_keeps_every_promise_of_a_store(check: StoreCheck) -> None:
    async def run() -> None:
        store: Store = MemoryStore(clock=FakeClock())
        await store.open()
        await check(store)
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("check", PROFILE_CHECKS, ids=name_of)
def test_the_memory_profile_store_keeps_every_promise_of_a_profile_store(
    check: ProfileCheck,
) -> None:
    asyncio.run(check(MemoryProfileStore()))


@pytest.mark.parametrize("check", CONFIG_CHECKS, ids=name_of)
def test_the_memory_store_keeps_every_promise_of_a_config_store(check: ConfigCheck) -> None:
    asyncio.run(check(MemoryStore(clock=FakeClock())))


@pytest.mark.parametrize("check", SCHEDULE_CHECKS, ids=name_of)
def test_the_memory_store_keeps_every_promise_of_a_schedule_store(check: ScheduleCheck) -> None:
    asyncio.run(check(MemoryStore(clock=FakeClock())))


@pytest.mark.parametrize("check", MEMORY_CHECKS, ids=name_of)
def test_the_memory_store_keeps_every_promise_of_a_memory_engine(check: MemoryCheck) -> None:
    # The real clock: some items of the checks have expired long ago.
    asyncio.run(check(MemoryStore().open_memory()))


@pytest.mark.parametrize("check", EVAL_CHECKS, ids=name_of)
def test_the_memory_store_keeps_every_promise_of_an_eval_store(check: EvalCheck) -> None:
    asyncio.run(check(MemoryStore(clock=FakeClock()).open_evals()))


def test_every_check_has_its_own_name() -> None:
    suites = (
        STORE_CHECKS,
        PROFILE_CHECKS,
        CONFIG_CHECKS,
        SCHEDULE_CHECKS,
        MEMORY_CHECKS,
        EVAL_CHECKS,
    )
    names = [name_of(check) for checks in suites for check in checks]
    assert len(names) == len(set(names)) >= 240


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


def test_a_keeper_extends_a_lease_from_another_thread() -> None:
    async def run() -> None:
        clock = FakeClock()
        store = MemoryStore(clock=clock)
        await store.commit(
            commit_at(0, fencing_token="token", claim=Claim(worker_id="w", lease_ms=100))
        )
        keeper = store.lease_keeper()
        clock.advance(90)
        (news,) = await asyncio.to_thread(keeper.extend, ("token",), 100)
        assert news.is_held
        clock.advance(90)
        assert await store.reclaim() == ()
        assert (await store.checkout("thread-1")).open_run is None
        await store.commit(commit_at(1, fencing_token="token"))

    asyncio.run(run())


def test_a_memory_store_is_shared_only_when_told_so() -> None:
    assert not MemoryStore().is_shared
    assert MemoryStore(is_shared=True).is_shared
