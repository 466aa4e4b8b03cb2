"""Circuit breakers: when a model is not asked, who may probe it, and what other processes hear."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from awaken.contracts.models.errors import (
    ContentFiltered,
    InvalidRequest,
    ModelError,
    Overloaded,
    ProviderFailed,
    QuotaExceeded,
    RateLimited,
    StreamInterrupted,
    Unauthorized,
)
from awaken.contracts.state.profile import ProfileEntry
from awaken.runtime.model_health.breaker import (
    BREAKER_TRANSITIONS,
    Breaker,
    BreakerPolicy,
    BreakerState,
    Heard,
)
from awaken.runtime.model_health.health import OWNER, REFRESH_MS, ModelHealth
from awaken.stores.memory.profiles import MemoryProfileStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN
COOLDOWN = BreakerPolicy().cooldown_ms


def failing(health: ModelHealth, times: int, model: str = "m") -> None:
    for _ in range(times):
        assert health.try_begin(model)
        health.record_failure(model, Overloaded("full"))


def opened(clock: FakeClock, policy: BreakerPolicy | None = None) -> ModelHealth:
    health = ModelHealth(clock, policy=policy)
    failing(health, (policy or BreakerPolicy()).threshold)
    return health


def test_the_defaults_are_five_failures_thirty_seconds_and_one_probe() -> None:
    policy = BreakerPolicy()
    assert (policy.threshold, policy.cooldown_ms, policy.half_open_max) == (5, 30_000, 1)


def test_a_breaker_opens_exactly_at_its_threshold() -> None:
    health = ModelHealth(FakeClock())
    failing(health, 4)
    assert health.is_available("m")
    failing(health, 1)
    assert not health.is_available("m")
    assert not health.try_begin("m")
    assert health.breaker("m").state is OPEN
    assert health.breaker("m").error == "overloaded"


def test_a_success_makes_all_failures_before_it_forgotten() -> None:
    health = ModelHealth(FakeClock())
    failing(health, 4)
    health.record_success("m")
    failing(health, 4)
    assert health.is_available("m")


def test_models_do_not_fail_for_each_other() -> None:
    health = opened(FakeClock())
    assert not health.is_available("m")
    assert health.is_available("other")


@pytest.mark.parametrize("error", [InvalidRequest, ContentFiltered, Unauthorized, QuotaExceeded])
def test_what_is_not_the_models_fault_never_opens_its_breaker(error: type[ModelError]) -> None:
    health = ModelHealth(FakeClock())
    for _ in range(20):
        health.record_failure("m", error("no"))
    assert health.breaker("m").failures == 0


@pytest.mark.parametrize("error", [RateLimited, ProviderFailed, StreamInterrupted])
def test_what_can_succeed_later_counts(error: type[ModelError]) -> None:
    health = ModelHealth(FakeClock())
    for _ in range(5):
        health.record_failure("m", error("no"))
    assert not health.is_available("m")


def test_after_the_cooldown_one_call_may_probe() -> None:
    clock = FakeClock()
    health = opened(clock)
    clock.advance(COOLDOWN - 1)
    assert not health.is_available("m")
    assert health.retry_in_ms("m") == 1
    clock.advance(1)
    assert health.try_begin("m")
    assert health.breaker("m").state is HALF_OPEN
    assert not health.try_begin("m")


def test_asking_whether_a_model_is_available_uses_up_no_probe() -> None:
    clock = FakeClock()
    health = opened(clock)
    clock.advance(COOLDOWN)
    assert all(health.is_available("m") for _ in range(10))
    assert health.breaker("m").state is OPEN
    assert health.try_begin("m")


def test_a_probe_that_succeeds_closes_and_one_that_fails_opens_for_another_cooldown() -> None:
    clock = FakeClock()
    health = opened(clock)
    clock.advance(COOLDOWN)
    assert health.try_begin("m")
    clock.advance(10)
    health.record_failure("m", Overloaded("full"))
    clock.advance(COOLDOWN - 1)
    assert not health.is_available("m")
    clock.advance(1)
    assert health.try_begin("m")
    health.record_success("m")
    assert health.breaker("m").state is CLOSED
    failing(health, 4)
    assert health.is_available("m")


@pytest.mark.parametrize(
    "give_up",
    [
        lambda health: health.record_abandon("m"),
        lambda health: health.record_failure("m", InvalidRequest("no such field")),
    ],
)
def test_a_probe_that_tells_nothing_is_given_back(give_up: Callable[[ModelHealth], None]) -> None:
    clock = FakeClock()
    health = opened(clock)
    clock.advance(COOLDOWN)
    assert health.try_begin("m")
    give_up(health)
    assert health.breaker("m").state is HALF_OPEN
    assert health.try_begin("m")
    assert not health.try_begin("m")


def test_calls_that_began_before_it_opened_give_no_probe_back_that_nobody_took() -> None:
    clock = FakeClock()
    health = ModelHealth(clock)
    assert health.try_begin("m")
    failing(health, 5)
    clock.advance(COOLDOWN)
    assert health.try_begin("m")
    for _ in range(3):
        health.record_abandon("m")
    assert health.try_begin("m")
    assert not health.try_begin("m")


def test_a_probe_that_is_never_heard_of_again_blocks_the_model_for_a_cooldown_only() -> None:
    clock = FakeClock()
    health = opened(clock)
    clock.advance(COOLDOWN)
    assert health.try_begin("m")
    clock.advance(COOLDOWN - 1)
    assert not health.try_begin("m")
    clock.advance(1)
    assert health.try_begin("m")
    assert not health.try_begin("m")


def test_as_many_probes_run_at_a_time_as_the_policy_says() -> None:
    clock = FakeClock()
    health = opened(clock, BreakerPolicy(half_open_max=2))
    clock.advance(COOLDOWN)
    assert [health.try_begin("m") for _ in range(3)] == [True, True, False]


def test_a_late_failure_neither_reopens_nor_prolongs() -> None:
    clock = FakeClock()
    health = opened(clock)
    clock.advance(COOLDOWN - 1)
    health.record_failure("m", Overloaded("full"))
    clock.advance(1)
    assert health.is_available("m")


def test_a_clock_that_is_set_back_far_does_not_lock_a_model_out() -> None:
    late = Breaker(state=OPEN, changed_at=10_000_000)
    assert late.is_available(9_000_000, BreakerPolicy())
    assert not late.is_available(10_000_000 - 1_000, BreakerPolicy())


def test_every_move_of_a_breaker_is_one_of_the_table() -> None:
    policy, seen = BreakerPolicy(threshold=2), set()
    todo, known = [Breaker()], {Breaker()}
    while todo:
        before = todo.pop()
        now = before.changed_at + 1
        for name, after in {
            Heard.PROBED: before.after_start(now, policy),
            Heard.SUCCEEDED: before.after_success(now),
            Heard.FAILED: before.after_failure(now, policy, "x"),
        }.items():
            if after.state is not before.state:
                seen.add((before.state, after.state, name))
            if after not in known and len(known) < 400:
                known.add(after)
                todo.append(after)
    moves = {(old, new) for (old, _), new in BREAKER_TRANSITIONS.items() if old is not new}
    assert {(old, new) for old, new, _ in seen} == moves


def two(
    tmp_path: Path, story: Callable[[ModelHealth, ModelHealth, FakeClock], Awaitable[None]]
) -> None:
    """Tell a story of two processes on one SQLite file."""

    async def scenario() -> None:
        clock = FakeClock()
        stores = [SqliteStore(tmp_path / "awaken.db") for _ in range(2)]
        for store in stores:
            await store.open()
        one, other = (ModelHealth(clock, store) for store in stores)
        try:
            await story(one, other, clock)
        finally:
            for health, store in zip((one, other), stores, strict=True):
                await health.close()
                await store.close()

    asyncio.run(scenario())


def test_a_breaker_that_one_process_opens_is_open_in_the_other(tmp_path: Path) -> None:
    async def story(one: ModelHealth, other: ModelHealth, clock: FakeClock) -> None:
        await other.refresh()
        failing(one, 5)
        await one.close()
        assert other.is_available("m")
        clock.advance(REFRESH_MS - 1)
        await other.refresh()
        assert other.is_available("m"), "it was read again too soon"
        clock.advance(1)
        await other.refresh()
        assert not other.is_available("m")
        assert other.breaker("m").error == "overloaded"
        clock.advance(COOLDOWN)
        assert other.is_available("m")

    two(tmp_path, story)


def test_a_breaker_outlives_the_process_that_opened_it(tmp_path: Path) -> None:
    async def story(one: ModelHealth, other: ModelHealth, _: FakeClock) -> None:
        failing(one, 5)
        await one.close()
        await other.refresh()
        assert not other.is_available("m")

    two(tmp_path, story)


def test_one_process_probes_and_the_other_waits_and_hears_how_it_went(tmp_path: Path) -> None:
    async def story(one: ModelHealth, other: ModelHealth, clock: FakeClock) -> None:
        failing(one, 5)
        await one.close()
        clock.advance(COOLDOWN)
        assert one.try_begin("m")
        await one.close()
        await other.refresh()
        assert not other.is_available("m")
        one.record_success("m")
        await one.close()
        clock.advance(REFRESH_MS)
        await other.refresh()
        assert other.breaker("m").state is CLOSED
        assert other.is_available("m")

    two(tmp_path, story)


def test_old_news_changes_nothing_here_or_there(tmp_path: Path) -> None:
    async def story(one: ModelHealth, other: ModelHealth, clock: FakeClock) -> None:
        failing(one, 5)
        await one.close()
        await other.refresh()
        clock.advance(COOLDOWN)
        assert other.try_begin("m")
        other.record_success("m")
        await other.close()
        clock.advance(REFRESH_MS)
        await one.refresh()
        assert one.breaker("m").state is CLOSED
        failing(other, 4)
        await other.refresh()
        assert other.breaker("m").failures == 4

    two(tmp_path, story)


def test_what_others_stored_later_is_not_overwritten() -> None:
    async def scenario() -> Any:
        shared = MemoryProfileStore()
        clock = FakeClock()
        health = ModelHealth(clock, shared)
        later = {"state": "closed", "changed_at": clock.now_ms() + 50}
        await shared.save_entry(ProfileEntry(owner=OWNER, key="m", value=later))
        failing(health, 5)
        await health.close()
        entry = await shared.find_entry(OWNER, "m")
        assert entry is not None
        return entry.value

    assert asyncio.run(scenario())["state"] == "closed"


class Broken(MemoryProfileStore):
    """A store that cannot be reached, or that never answers."""

    def __init__(self, is_silent: bool) -> None:
        super().__init__()
        self.is_silent = is_silent
        self.asked = asyncio.Event()

    async def change_entry(self, *_: Any, **__: Any) -> Any:
        self.asked.set()
        await self._fail()

    async def list_entries(self, _: str) -> tuple[ProfileEntry, ...]:
        await self._fail()
        return ()

    async def _fail(self) -> None:
        if self.is_silent:
            await asyncio.Event().wait()
        raise OSError("no route to host")


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_store_that_fails_holds_nobody_up_and_is_told_of(
    is_silent: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awaken.runtime.model_health.health._STORE_S", 0.02)

    async def scenario() -> None:
        store = Broken(is_silent)
        health = ModelHealth(FakeClock(), store)
        failing(health, 5)
        assert not health.is_available("m")
        await asyncio.wait_for(health.refresh(), 5)
        await asyncio.wait_for(store.asked.wait(), 5)
        await asyncio.wait_for(health.close(), 5)
        assert len(asyncio.all_tasks()) == 1

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    told = [record.message for record in caplog.records]
    assert any("could not be read" in text for text in told)
    assert is_silent or any("'m' was not saved" in text for text in told)


class SlowOnce(MemoryProfileStore):
    """A store that never answers its first writer."""

    def __init__(self) -> None:
        super().__init__()
        self.saved = asyncio.Event()
        self.is_first = True

    async def change_entry(self, *args: Any, **options: Any) -> Any:
        if self.is_first:
            self.is_first = False
            await asyncio.Event().wait()
        value = await super().change_entry(*args, **options)
        self.saved.set()
        return value


def test_a_save_that_hangs_does_not_keep_the_next_from_being_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("awaken.runtime.model_health.health._STORE_S", 0.02)

    async def scenario() -> None:
        store = SlowOnce()
        health = ModelHealth(FakeClock(), store)
        failing(health, 5, "m1")
        failing(health, 5, "m2")
        await asyncio.wait_for(store.saved.wait(), 10)
        assert [entry.key for entry in await store.list_entries(OWNER)] == ["m2"]
        await health.close()

    asyncio.run(scenario())


def test_an_entry_that_is_no_breaker_is_passed_over_and_replaced() -> None:
    async def scenario() -> None:
        shared = MemoryProfileStore()
        await shared.save_entry(ProfileEntry(owner=OWNER, key="m", value={"state": "ajar"}))
        health = ModelHealth(FakeClock(), shared)
        await health.refresh()
        assert health.is_available("m")
        failing(health, 5)
        await health.close()
        entry = await shared.find_entry(OWNER, "m")
        assert entry is not None
        assert entry.value["state"] == "open"

    asyncio.run(scenario())


def test_calls_that_change_nothing_write_nothing() -> None:
    async def scenario() -> None:
        store = Broken(is_silent=False)
        health = ModelHealth(FakeClock(), store)
        for _ in range(100):
            failing(health, 1)
            health.record_success("m")
        await health.close()
        assert not store.asked.is_set()

    asyncio.run(scenario())


def test_many_changes_of_one_model_are_saved_by_one_task_and_the_last_one_wins() -> None:
    async def scenario() -> None:
        shared = MemoryProfileStore()
        health = ModelHealth(FakeClock(), shared)
        for _ in range(50):
            failing(health, 5)
            health.record_success("m")
        assert len(asyncio.all_tasks()) == 2
        await health.close()
        entry = await shared.find_entry(OWNER, "m")
        assert entry is not None
        assert "state" not in entry.value or entry.value["state"] == "closed"

    asyncio.run(scenario())
