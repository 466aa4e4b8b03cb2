"""A node that is too slow claims less, and goes on as before once it is not."""

import asyncio
from typing import Any

import pytest
from tests.postgres.server import new_schema, server

from awaken import Agent, AgentRuntime, MailboxConfig
from awaken.mailbox.claim_pressure import (
    LAG_MS,
    POOL_WAIT_MS,
    SAMPLE_MS,
    SAMPLES_MIN,
    WINDOW_MS,
    ClaimPressure,
)
from awaken.stores import PostgresStore
from awaken.testing import FakeClock, ScriptedModel

WAIT_S = 30
SLOTS = 8


class Watched:
    """A pressure whose samples are taken by hand: each takes as long as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = FakeClock()
        self.reliefs = 0
        self.pressure = ClaimPressure(self.clock, self._note_relief)
        self.late_ms = 0
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    def _note_relief(self) -> None:
        self.reliefs += 1

    async def _sleep(self, seconds: float) -> None:
        if not self._left:
            raise asyncio.CancelledError
        self._left -= 1
        self.clock.advance(round(seconds * 1000) + self.late_ms)

    def pass_samples(self, count: int, late_ms: int = 0) -> None:
        self._left, self.late_ms = count, late_ms
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(self.pressure.watch())


def test_half_of_the_slots_are_used_while_the_event_loop_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(monkeypatch)
    window = WINDOW_MS // SAMPLE_MS
    watched.pass_samples(window, LAG_MS)
    assert watched.pressure.limit_slots(SLOTS) == SLOTS
    watched.pass_samples(SAMPLES_MIN, LAG_MS + 1)
    assert watched.pressure.limit_slots(SLOTS) == SLOTS // 2
    assert watched.pressure.limit_slots(1) == 1
    assert watched.reliefs == 0
    watched.pass_samples(window)
    assert watched.pressure.limit_slots(SLOTS) == SLOTS
    assert watched.reliefs == 1


def test_one_pause_among_many_samples_is_no_pressure(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    watched.pass_samples(WINDOW_MS // SAMPLE_MS)
    watched.pass_samples(1, LAG_MS + 1)
    assert watched.pressure.limit_slots(SLOTS) == SLOTS
    # Nor are the first ones of a process that has just begun.
    watched = Watched(monkeypatch)
    watched.pass_samples(SAMPLES_MIN - 1, 10 * LAG_MS)
    assert watched.pressure.limit_slots(SLOTS) == SLOTS


def test_nothing_is_claimed_while_work_waits_for_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(monkeypatch)
    for _ in range(95):
        watched.pressure.on_pool_wait(POOL_WAIT_MS)
    for _ in range(5):
        watched.pressure.on_pool_wait(POOL_WAIT_MS + 1)
    watched.pass_samples(1)
    assert not watched.pressure.is_pool_exhausted
    watched.pressure.on_pool_wait(POOL_WAIT_MS + 1)
    watched.pass_samples(1)
    assert watched.pressure.is_pool_exhausted
    watched.pass_samples(WINDOW_MS // SAMPLE_MS)
    assert not watched.pressure.is_pool_exhausted
    assert watched.reliefs == 1


def play(work: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S):
            await work()

    asyncio.run(bounded())


def test_a_worker_under_pressure_leaves_its_queue_and_goes_on_when_it_is_over() -> None:
    async def scenario() -> None:
        store = PostgresStore(server().url, schema=new_schema())
        runtime = AgentRuntime(
            [Agent("agent", model=ScriptedModel(["done"], cycle=True))],
            store=store,
            # Only relief wakes it in time.
            mailbox=MailboxConfig(poll_ms=3_600_000, concurrency=SLOTS),
        )
        async with runtime:
            worker = runtime._node.worker
            assert worker is not None
            pressure = worker._pressure
            assert pressure is not None
            assert pressure in store.watchers
            assert worker.slots == SLOTS
            for _ in range(500):
                pressure.on_pool_wait(POOL_WAIT_MS + 1)
            while not pressure.is_pool_exhausted:
                await asyncio.sleep(0.01)
            receipt = await runtime.submit("agent", "go", thread_id="t")
            await asyncio.sleep(4 * SAMPLE_MS / 1000)
            assert pressure.is_pool_exhausted
            assert worker.in_flight == 0
            assert (await runtime.store.load_run(receipt.run_id)) is None
            assert (await runtime.wait(receipt.run_id)).text == "done"
            assert not pressure.is_pool_exhausted
        assert store.watchers == []

    play(scenario)


def test_a_slot_that_becomes_free_under_pressure_is_used_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ClaimPressure, "limit_slots", lambda _pressure, _slots: 1)

    async def scenario() -> None:
        runtime = AgentRuntime(
            [Agent("agent", model=ScriptedModel(["done"], cycle=True))],
            store=PostgresStore(server().url, schema=new_schema()),
            # Only the end of a run wakes it in time.
            mailbox=MailboxConfig(poll_ms=3_600_000, concurrency=SLOTS),
        )
        async with runtime:
            receipts = [await runtime.submit("agent", "go", thread_id=f"t{n}") for n in range(4)]
            for receipt in receipts:
                assert (await runtime.wait(receipt.run_id)).text == "done"

    play(scenario)
