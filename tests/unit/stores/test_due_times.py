"""What is due at once needs no clock: one that is wrong, or set back, holds nothing up."""

import asyncio
from pathlib import Path

import pytest

from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.storage.store import OutboxEntry, Store
from awaken.stores.memory import MemoryStore
from awaken.stores.sql.session import Moment
from awaken.stores.sqlite import SqliteStore
from awaken.testing.store_conformance.writing import Writer, dispatch

SKEW_MS = 600_000


class Clock:
    """A wall clock that can be set, and a monotonic one that cannot."""

    def __init__(self) -> None:
        self.wall_ms, self.lease_ms = 1_700_000_000_000, 1000

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> int:
        return self.lease_ms

    def moment(self) -> Moment:
        return Moment(wall_ms=self.wall_ms, lease_ms=self.lease_ms)


def made(kind: str, clock: Clock, folder: Path) -> Store:
    if kind == "memory":
        return MemoryStore(clock=clock)
    return SqliteStore(folder / "store.db", clock.moment)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_work_queued_before_the_clock_was_set_back_is_claimed_at_once(
    kind: str, tmp_path: Path
) -> None:
    async def run() -> None:
        clock = Clock()
        store = made(kind, clock, tmp_path)
        await store.open()
        await store.enqueue(dispatch("d-1", "t-1"))
        await store.enqueue(dispatch("d-2", "t-2", mode=InputMode.STEER))
        clock.wall_ms -= SKEW_MS
        assert [it.dispatch_id for it in await store.list_inputs("t-2")] == ["d-2"]
        assert len(await store.claim("worker", "token", 1000, limit=9)) == 2
        # Given back by somebody whose clock is ahead, it is due for those who are behind.
        clock.wall_ms += 2 * SKEW_MS
        await store.requeue("d-1", "token")
        clock.wall_ms -= 2 * SKEW_MS
        assert len(await store.claim("worker", "again", 1000, limit=9)) == 1
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_delayed_work_still_waits_for_its_time(kind: str, tmp_path: Path) -> None:
    async def run() -> None:
        clock = Clock()
        store = made(kind, clock, tmp_path)
        await store.open()
        await store.enqueue(dispatch("d-1", "t-1", available_at=clock.wall_ms + 400))
        assert await store.claim("worker", "token", 1000) == ()
        clock.wall_ms += 400
        (claimed,) = await store.claim("worker", "token", 1000)
        assert claimed.dispatch_id == "d-1"
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_order_is_due_exactly_at_its_time_and_at_once_without_one(
    kind: str, tmp_path: Path
) -> None:
    async def run() -> None:
        clock = Clock()
        store = made(kind, clock, tmp_path)
        await store.open()
        delayed = OutboxEntry(entry_id="delayed", kind="mail", due_at=clock.wall_ms + 400)
        at_once = OutboxEntry(entry_id="at once", kind="mail")
        await Writer(store).commit(outbox=(delayed, at_once))
        for passed_ms, due in (
            (-SKEW_MS, (at_once,)),
            (399, (at_once,)),
            (400, (delayed, at_once)),
        ):
            clock.wall_ms = delayed.due_at - 400 + passed_ms
            assert await store.list_outbox() == due
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_retry_does_not_wait_longer_because_the_clock_was_set_back(
    kind: str, tmp_path: Path
) -> None:
    async def run() -> None:
        clock = Clock()
        store = made(kind, clock, tmp_path)
        await store.open()
        await store.enqueue(dispatch("d-1", "t-1"))
        later = clock.wall_ms + 400
        await store.enqueue(dispatch("delayed", "t-2", available_at=later))
        await store.enqueue(dispatch("before", "t-2", priority=0))
        clock.wall_ms += 10
        for claimed in await store.claim("worker", "token", 1000, limit=2):
            token = claimed.claim_token or ""
            if claimed.dispatch_id == "before":
                await store.release("before", token)
            else:
                await store.requeue("d-1", token, delay_ms=250)
        assert await store.claim("worker", "too soon", 1000, limit=9) == ()
        clock.wall_ms -= SKEW_MS
        await store.reclaim()
        for token in ("again", "and again"):
            found = await store.claim("worker", token, 1000, limit=9)
            # What its sender has delayed keeps its time.
            assert [it.dispatch_id for it in found] == ["d-1"]
            await store.requeue("d-1", token, delay_ms=250)
            clock.wall_ms -= 10
            await store.reclaim()
        clock.wall_ms = later
        assert len(await store.claim("worker", "at last", 1000, limit=9)) == 2
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_order_that_failed_does_not_wait_longer_because_the_clock_was_set_back(
    kind: str, tmp_path: Path
) -> None:
    async def run() -> None:
        clock = Clock()
        store = made(kind, clock, tmp_path)
        await store.open()
        failed = OutboxEntry(
            entry_id="failed", kind="mail", attempts=1, due_at=clock.wall_ms + 1000
        )
        await Writer(store).commit(outbox=(failed,))
        assert await store.list_outbox(pause_max_ms=120_000) == ()
        clock.wall_ms -= SKEW_MS
        assert await store.list_outbox() == ()
        assert await store.list_outbox(pause_max_ms=120_000) == (failed,)
        await store.close()

    asyncio.run(run())
