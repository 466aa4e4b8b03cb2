"""The one timer behind the time limits of all runs: every moment is met, and waits cost nothing."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken import Agent, AgentRuntime
from awaken.runtime.primitives.timers import IdleTimer, Watchdog, Watchdogs
from awaken.testing import ScriptedModel, Turn
from awaken.testing.simulation import Fifo, SimulatedLoop, run


class CountingLoop(SimulatedLoop):
    """A loop in virtual time that counts the timers it is given."""

    def __init__(self) -> None:
        super().__init__(Fifo())
        self.timers = 0

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self.timers += 1
        return super().call_at(when, callback, *args, context=context)


@dataclass(frozen=True)
class Owner:
    """The owner of a moment; owners with the same name are one."""

    name: object
    on_moment: Callable[[], object] = field(default=pytest.fail, compare=False)


def play(scenario: Callable[[CountingLoop], Coroutine[Any, Any, None]]) -> CountingLoop:
    loop = CountingLoop()
    run(loop, lambda: scenario(loop))
    return loop


def test_each_owner_is_called_at_its_own_moment() -> None:
    rung: list[tuple[str, float]] = []

    def note(name: str, loop: CountingLoop) -> None:
        rung.append((name, loop.time()))

    async def main(loop: CountingLoop) -> None:
        watchdog = Watchdog(loop)
        for name, moment in (("late", 7.0), ("early", 2.0), ("middle", 5.0)):
            ring = partial(note, name, loop)
            watchdog.set(Owner(name, ring), moment)
        await asyncio.sleep(10)

    play(main)
    assert rung == [("early", 2.0), ("middle", 5.0), ("late", 7.0)]


def test_a_moment_that_is_moved_or_cleared_does_not_ring() -> None:
    rung: list[tuple[str, float]] = []

    async def main(loop: CountingLoop) -> None:
        watchdog = Watchdog(loop)
        moved = Owner("moved", lambda: rung.append(("moved", loop.time())))
        watchdog.set(moved, 1.0)
        watchdog.set(moved, 4.0)
        watchdog.set(Owner("cleared"), 2.0)
        watchdog.clear(Owner("cleared"))
        watchdog.clear(Owner("never set"))
        await asyncio.sleep(10)

    play(main)
    assert rung == [("moved", 4.0)]


def test_waits_that_end_in_time_share_one_timer() -> None:
    async def main(loop: CountingLoop) -> None:
        watchdog = Watchdog(loop)
        for _ in range(1_000):
            owner = Owner("any")
            watchdog.set(owner, loop.time() + 60)
            watchdog.clear(owner)
        await asyncio.sleep(1_000)

    # One is the sleep's. Nothing is set when the other one fires, so it is not set again.
    assert play(main).timers == 2


def test_a_later_moment_is_met_although_the_timer_fires_for_one_that_was_cleared() -> None:
    rung: list[float] = []

    async def main(loop: CountingLoop) -> None:
        watchdog = Watchdog(loop)
        watchdog.set(Owner("cleared"), 1.0)
        watchdog.set(Owner("kept", lambda: rung.append(loop.time())), 3.0)
        watchdog.clear(Owner("cleared"))
        await asyncio.sleep(10)

    play(main)
    assert rung == [3.0]


def test_a_callback_may_set_the_next_moment() -> None:
    rung: list[float] = []

    async def main(loop: CountingLoop) -> None:
        watchdog = Watchdog(loop)

        def ring() -> None:
            rung.append(loop.time())
            watchdog.set(again, loop.time() + 2)

        again = Owner("again", ring)
        watchdog.set(Owner("other", lambda: None), 5.0)
        watchdog.set(again, 1.0)
        await asyncio.sleep(6)
        watchdog.clear(again)

    play(main)
    assert rung == [1.0, 3.0, 5.0]


def test_each_loop_has_a_watchdog_of_its_own_that_others_do_not_disturb() -> None:
    watchdogs, rung = Watchdogs(), []

    async def main(loop: CountingLoop) -> None:
        mine = watchdogs.find(loop)
        mine.set(Owner("mine", lambda: rung.append(loop.time())), 9.0)
        other = asyncio.new_event_loop()
        # A thread with a loop of its own uses the same runtime meanwhile.
        assert watchdogs.find(other) is not mine
        assert watchdogs.latest is watchdogs.find(other)
        watchdogs.find(other).set(Owner("other"), 1.0)
        other.close()
        assert watchdogs.find(loop) is mine is watchdogs.latest
        await asyncio.sleep(10)

    play(main)
    assert rung == [9.0]


def test_many_moments_close_together_need_few_looks_and_are_hardly_late() -> None:
    late: list[float] = []

    async def main(loop: CountingLoop) -> None:
        watchdog = Watchdog(loop)
        for index in range(10_000):
            moment = 1 + index / 10_000

            def ring(moment: float = moment) -> None:
                late.append(loop.time() - moment)

            watchdog.set(Owner(index, ring), moment)
        await asyncio.sleep(10)

    timers = play(main).timers
    assert len(late) == 10_000
    assert timers < 100
    assert 0 <= min(late) <= max(late) <= 10_000 * 50e-6


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(["set", "clear"]), st.integers(1, 8)),
        max_size=30,
    )
)
def test_whatever_is_set_and_cleared_what_remains_is_met(
    steps: list[tuple[int, str, int]],
) -> None:
    expected: dict[int, float] = {}
    rung: list[tuple[float, int]] = []

    def note(owner: int, loop: CountingLoop) -> None:
        rung.append((loop.time(), owner))

    async def main(loop: CountingLoop) -> None:
        watchdog = Watchdog(loop)
        for owner, what, seconds in steps:
            if what == "set":
                expected[owner] = seconds
                ring = partial(note, owner, loop)
                watchdog.set(Owner(owner, ring), seconds)
            else:
                expected.pop(owner, None)
                watchdog.clear(Owner(owner))
        await asyncio.sleep(20)

    play(main)
    assert sorted(rung) == sorted((moment, owner) for owner, moment in expected.items())


def test_silence_ends_the_block_after_one_interval_and_a_sign_of_life_extends_it() -> None:
    ended: list[float] = []

    async def be_silent_after_a_while(loop: CountingLoop) -> None:
        with IdleTimer(Watchdog(loop), 2_000) as timer:
            await asyncio.sleep(1.5)
            timer.is_fresh = True
            await asyncio.sleep(100)

    async def main(loop: CountingLoop) -> None:
        with pytest.raises(TimeoutError):
            await be_silent_after_a_while(loop)
        ended.append(loop.time())
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    play(main)
    assert ended == [4.0]


def test_two_silent_blocks_at_once_end_each_at_their_own_time() -> None:
    ended: list[tuple[str, float]] = []

    async def be_silent(loop: CountingLoop, watchdog: Watchdog, name: str, idle_ms: int) -> None:
        with pytest.raises(TimeoutError), IdleTimer(watchdog, idle_ms):
            await asyncio.sleep(1_000)
        ended.append((name, loop.time()))

    async def main(loop: CountingLoop) -> None:
        watchdog = Watchdog(loop)
        await asyncio.gather(
            be_silent(loop, watchdog, "long", 6_000), be_silent(loop, watchdog, "short", 2_000)
        )

    play(main)
    assert ended == [("short", 2.0), ("long", 6.0)]


def test_a_hundred_runs_at_once_need_no_timer_each() -> None:
    async def main(loop: CountingLoop) -> None:
        model = ScriptedModel([Turn(text="Hello.", delay_ms=50)], cycle=True)
        async with AgentRuntime([Agent("a", model=model)]) as runtime:
            await runtime.run("a", "warm up")
            before = loop.timers
            await asyncio.gather(*(runtime.run("a", "hello") for _ in range(100)))
            # The model sleeps once in each run.
            assert loop.timers - before <= 100 + 2

    play(main)


def test_a_runtime_that_is_used_in_one_loop_after_another_keeps_its_idle_timeout() -> None:
    silent = Turn(text="too late", delay_ms=10**9)
    runtime = AgentRuntime([Agent("a", model=ScriptedModel(["Hello.", silent, "Here I am."]))])

    async def greet(loop: CountingLoop) -> None:
        assert (await runtime.run("a", "hello")).text == "Hello."

    async def wait(loop: CountingLoop) -> None:
        assert (await runtime.run("a", "hello")).text == "Here I am."
        assert loop.time() < 300

    play(greet)
    play(wait)
