"""The mutex: one holder at a time, whatever waits, is cancelled or fails."""

import asyncio
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from awaken.runtime.primitives.signals import Mutex


async def hold(mutex: Mutex, turns: int, inside: list[int], peak: list[int]) -> None:
    while mutex.is_held:
        await mutex.wait()
    mutex.is_held = True
    try:
        inside[0] += 1
        peak[0] = max(peak[0], inside[0])
        for _ in range(turns):
            await asyncio.sleep(0)
        if turns == 3:
            raise RuntimeError("the holder fails")
    finally:
        inside[0] -= 1
        mutex.release()


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 6)), max_size=6),
)
def test_no_two_tasks_hold_it_and_it_is_free_in_the_end(
    works: list[int], cancels: list[tuple[int, int]]
) -> None:
    async def scenario() -> None:
        mutex, inside, peak = Mutex(), [0], [0]
        tasks = [asyncio.create_task(hold(mutex, turns, inside, peak)) for turns in works]
        for index, delay in cancels:
            for _ in range(delay):
                await asyncio.sleep(0)
            tasks[index % len(tasks)].cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, RuntimeError):
                async with asyncio.timeout(5):
                    await task
        assert peak[0] <= 1
        assert not mutex.is_held

    asyncio.run(scenario())
