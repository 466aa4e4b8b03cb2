"""What only the memory store can be asked: time to the millisecond, and a keeper in a thread."""

import asyncio
import threading

from awaken.contracts.storage.dispatch import DispatchStatus, RunDispatch
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock

WORKER, TOKEN = "worker", "token"


class ServerClock(FakeClock):
    """A clock whose wall time can be set, as an administrator sets a server's."""

    wall_shift_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.wall_shift_ms


def dispatch(name: str, thread_id: str = "thread", **fields: object) -> RunDispatch:
    return RunDispatch(dispatch_id=name, thread_id=thread_id, run_id=f"run-{name}", **fields)


def test_a_dispatch_is_due_in_its_millisecond_and_not_before() -> None:
    async def run() -> None:
        clock = FakeClock()
        store = MemoryStore(clock=clock)
        await store.enqueue(dispatch("d", available_at=clock.now_ms() + 1))
        assert await store.claim(WORKER, TOKEN, 1000) == ()
        clock.advance(1)
        assert len(await store.claim(WORKER, TOKEN, 1000)) == 1

    asyncio.run(run())


def test_a_lease_runs_out_in_its_millisecond_and_not_before() -> None:
    async def run() -> None:
        clock = FakeClock()
        store = MemoryStore(clock=clock)
        await store.enqueue(dispatch("d"))
        await store.claim(WORKER, TOKEN, 100)
        clock.advance(99)
        assert await store.reclaim() == ()
        clock.advance(1)
        assert len(await store.reclaim()) == 1

    asyncio.run(run())


def test_a_lease_follows_no_wall_clock() -> None:
    async def run() -> None:
        clock = ServerClock()
        store = MemoryStore(clock=clock)
        await store.enqueue(dispatch("d"))
        await store.claim(WORKER, TOKEN, 100)
        clock.wall_shift_ms = 3_600_000
        assert await store.reclaim() == ()
        clock.wall_shift_ms = -3_600_000
        clock.advance(100)
        assert len(await store.reclaim()) == 1

    asyncio.run(run())


def test_a_dispatch_that_was_due_waits_again_when_the_wall_clock_is_set_back() -> None:
    async def run() -> None:
        clock = ServerClock()
        store = MemoryStore(clock=clock)
        await store.enqueue(dispatch("d", available_at=clock.now_ms() + 10))
        clock.advance(10)
        clock.wall_shift_ms = -10
        assert await store.claim(WORKER, TOKEN, 1000) == ()
        clock.wall_shift_ms = 0
        assert len(await store.claim(WORKER, TOKEN, 1000)) == 1

    asyncio.run(run())


def test_the_lease_that_ran_out_first_is_taken_back_first() -> None:
    async def run() -> None:
        clock = FakeClock()
        store = MemoryStore(clock=clock)
        for name, lease_ms in (("a", 300), ("b", 100), ("c", 200)):
            await store.enqueue(dispatch(name, name))
            await store.claim_dispatch(name, WORKER, f"{TOKEN}-{name}", lease_ms)
        clock.advance(300)
        order = [(await store.reclaim(limit=1))[0].dispatch_id for _ in range(3)]
        assert order == ["b", "c", "a"]

    asyncio.run(run())


def test_the_record_of_a_claimed_dispatch_shows_its_extended_lease() -> None:
    async def run() -> None:
        clock = FakeClock()
        store = MemoryStore(clock=clock)
        await store.enqueue(dispatch("d"))
        (taken,) = await store.claim(WORKER, TOKEN, 100)
        assert taken.lease_until == clock.now_ms() + 100
        clock.advance(50)
        store.lease_keeper().extend((TOKEN,), 100)
        shown = await store.find_dispatch("d")
        assert shown is not None
        assert shown.lease_until == clock.now_ms() + 100

    asyncio.run(run())


def test_a_busy_keeper_disturbs_nobody() -> None:
    async def run() -> None:
        store = MemoryStore()
        is_over, problems, rounds = threading.Event(), [], [0]

        def keep() -> None:
            keeper = store.lease_keeper()
            try:
                while not is_over.is_set():
                    keeper.extend((TOKEN, "nobody"), 60_000)
                    rounds[0] += 1
            except Exception as error:  # noqa: BLE001  (the thread's failure is the outcome)
                problems.append(error)

        thread = threading.Thread(target=keep)
        thread.start()
        for number in range(2000):
            await store.enqueue(dispatch(f"d-{number}"))
            (taken,) = await store.claim(WORKER, TOKEN, 60_000)
            over = await store.release(taken.dispatch_id, TOKEN)
            assert over.status is DispatchStatus.ACKED
            found = await store.find_dispatch(taken.dispatch_id)
            assert found == over
        is_over.set()
        thread.join(timeout=10)
        assert (problems, thread.is_alive()) == ([], False)
        assert rounds[0] > 0

    asyncio.run(run())
