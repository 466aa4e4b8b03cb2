"""The simulator finds planted bugs, replays them, and is faithful to what asyncio promises."""

import asyncio
import gc
import math
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling import choose_size, sampled

from awaken.testing.simulation import (
    Deadlock,
    Fifo,
    InjectionPoint,
    LeakedTask,
    LiveLock,
    RandomOrder,
    ScheduleFailed,
    SimulatedLoop,
    UnseenFailure,
    enumerate_awaits,
    inject_at,
    inject_cancellation,
    replay,
    run,
    simulate,
)


def under_fifo(scenario: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return run(SimulatedLoop(Fifo()), scenario)


def start(coro: Coroutine[Any, Any, object], *, name: str | None = None) -> None:
    asyncio.create_task(coro, name=name)  # noqa: RUF006 - the loop is to notice that nobody owns it


def simulated_loop() -> SimulatedLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    return loop


async def lost_update() -> None:
    balance = 0
    written = asyncio.Event()

    async def deposit() -> None:
        nonlocal balance
        seen = balance
        if not written.is_set():
            await asyncio.sleep(0)
        balance = seen + 1
        written.set()

    await asyncio.gather(deposit(), deposit())
    assert balance == 2


async def three_chatty_tasks() -> tuple[str, ...]:
    async def chat() -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for name in ("ann", "bob", "cleo"):
            group.create_task(chat(), name=name)
    return simulated_loop().trace


# --- Finding and replaying ------------------------------------------------------------------


def test_a_lost_update_is_found_within_fifty_seeds_and_replays_from_its_seed() -> None:
    with pytest.raises(ScheduleFailed) as found:
        simulate(lost_update, seeds=range(50))

    assert isinstance(found.value, AssertionError)
    assert isinstance(found.value.__cause__, AssertionError)
    seed = found.value.seed
    assert seed is not None
    assert f"replay(scenario, seed={seed})" in str(found.value)
    for _ in range(3):
        with pytest.raises(AssertionError) as again:
            replay(lost_update, seed)
        assert not isinstance(again.value, ScheduleFailed)


def test_a_bug_that_only_one_order_of_starting_shows_is_found() -> None:
    async def scenario() -> None:
        first: list[str] = []

        async def claim(name: str) -> None:
            first.append(name)

        await asyncio.gather(*(claim(name) for name in "abcde"))
        assert first[0] != "e"

    under_fifo(scenario)
    with pytest.raises(ScheduleFailed):
        simulate(scenario, seeds=range(50))


def test_a_race_between_a_deadline_and_a_result_due_at_the_same_instant_goes_both_ways() -> None:
    outcomes: Counter[str] = Counter()

    async def scenario() -> None:
        try:
            async with asyncio.timeout(1):
                await asyncio.sleep(1)
        except TimeoutError:
            outcomes["late"] += 1
        else:
            outcomes["in time"] += 1

    simulate(scenario)
    assert min(outcomes["late"], outcomes["in time"]) > 20


def test_a_replay_returns_what_the_scenario_returns() -> None:
    async def scenario() -> str:
        await asyncio.sleep(5)
        return "done"

    assert replay(scenario, seed=3) == "done"


def test_the_same_seed_gives_the_same_trace_and_other_seeds_give_others() -> None:
    traces = [replay(three_chatty_tasks, seed) for seed in range(20)]

    assert traces == [replay(three_chatty_tasks, seed) for seed in range(20)]
    assert len(set(traces)) > 15
    assert set(traces[0]) == {"scenario", "ann", "bob", "cleo"}


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    code = (
        "from test_simulation import *\nprint([hash_of_unnamed_tasks(seed) for seed in range(20)])"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": ":".join([str(__file__).rpartition("/")[0], *sys.path])},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for _ in range(2)
    }
    assert printed == {f"{[hash_of_unnamed_tasks(seed) for seed in range(20)]}\n"}


def hash_of_unnamed_tasks(seed: int) -> int:
    loop = SimulatedLoop(RandomOrder(seed))
    run(loop, group_aborting_many_unnamed_tasks)
    return loop.schedule_hash


async def group_aborting_many_unnamed_tasks() -> tuple[str, ...]:
    # The group cancels its children in the order of a set of tasks.
    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)

    async def fail() -> None:
        await asyncio.sleep(1)
        raise LookupError

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(12):
                group.create_task(wait_for_ever())
            group.create_task(fail())
    except* LookupError:
        pass
    return simulated_loop().trace


def test_the_order_in_which_a_group_aborts_its_tasks_replays() -> None:
    kept: list[object] = []
    traces = set()
    for size in range(20):
        traces.add(replay(group_aborting_many_unnamed_tasks, seed=1))
        kept.append(bytearray(size * 1000))  # So that new tasks land on other addresses.
    assert len(traces) == 1


def test_the_report_counts_schedules_interleavings_steps_and_virtual_time() -> None:
    async def scenario() -> None:
        await asyncio.gather(asyncio.sleep(2), asyncio.sleep(2))

    report = simulate(scenario, seeds=range(100))

    assert report.schedules == 100
    assert report.interleavings == 4  # Two orders of starting times two of waking up.
    assert report.steps == 100 * 11  # Three starts, two timers, three wake-ups, three callbacks.
    assert report.virtual_seconds == 200


def test_under_fifo_every_seed_sees_the_same_interleaving() -> None:
    report = simulate(three_chatty_tasks, seeds=range(10), policy=lambda _seed: Fifo())
    assert report.interleavings == 1


def test_a_simulation_without_seeds_is_refused() -> None:
    with pytest.raises(ValueError, match="no seeds"):
        simulate(lost_update, seeds=[])


def test_a_scenario_that_is_cancelled_fails_its_schedule() -> None:
    async def scenario() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ScheduleFailed) as failed:
        simulate(scenario)
    assert failed.value.seed == 0


def test_an_interrupt_from_the_keyboard_stops_the_simulation() -> None:
    async def scenario() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(scenario)


# --- Virtual time ---------------------------------------------------------------------------


def test_a_sleep_of_years_ends_at_its_virtual_moment() -> None:
    years = 100 * 365 * 24 * 3600

    async def scenario() -> list[float]:
        moments = [simulated_loop().time()]
        await asyncio.sleep(years)
        return [*moments, simulated_loop().time()]

    assert replay(scenario, seed=0) == [0, years]


def test_timers_fire_in_the_order_of_their_deadlines_under_every_seed() -> None:
    async def scenario() -> None:
        woken: list[float] = []

        async def sleeper(seconds: float) -> None:
            await asyncio.sleep(seconds)
            woken.append(simulated_loop().time())

        await asyncio.gather(*(sleeper(seconds) for seconds in (3, 1, 2, 0.5)))
        assert woken == [0.5, 1, 2, 3]

    simulate(scenario)


def test_equal_deadlines_keep_their_order_under_fifo_and_take_any_order_otherwise() -> None:
    async def scenario() -> str:
        fired: list[str] = []
        for name in "abc":
            asyncio.get_running_loop().call_later(1, fired.append, name)
        await asyncio.sleep(2)
        return "".join(fired)

    assert under_fifo(scenario) == "abc"
    assert len({replay(scenario, seed) for seed in range(100)}) == 6


def test_a_cancelled_timer_does_not_move_the_clock() -> None:
    async def scenario() -> float:
        loop, seen = simulated_loop(), list[float]()
        cancelled = loop.call_later(1, pytest.fail)
        loop.call_later(0.5, cancelled.cancel)
        loop.before_step = lambda: seen.append(loop.time())
        await asyncio.sleep(2)
        assert set(seen) == {0, 0.5, 2}
        return loop.time()

    assert under_fifo(scenario) == 2


# --- Refusals -------------------------------------------------------------------------------


def test_a_deadlock_names_the_waiting_tasks_and_where_they_wait() -> None:
    async def scenario() -> None:
        left, right = asyncio.Lock(), asyncio.Lock()

        async def take(one: asyncio.Lock, other: asyncio.Lock) -> None:
            async with one:
                await asyncio.sleep(0)
                async with other:
                    pass

        async with asyncio.TaskGroup() as group:
            group.create_task(take(left, right), name="lefty")
            group.create_task(take(right, left), name="righty")

    with pytest.raises(Deadlock) as stuck:
        under_fifo(scenario)
    assert [name.split()[0] for name in stuck.value.tasks] == ["lefty", "righty", "scenario"]
    assert all("Lock.acquire" in name for name in stuck.value.tasks[:2])


def test_a_deadlock_that_only_some_schedules_reach_is_found() -> None:
    async def scenario() -> None:
        ready = asyncio.Condition()

        async def announce() -> None:
            async with ready:
                ready.notify_all()

        async def listen() -> None:
            async with ready:
                await ready.wait()  # Misses an announcement that was made before.

        await asyncio.gather(listen(), announce())

    under_fifo(scenario)
    with pytest.raises(ScheduleFailed) as failed:
        simulate(scenario, seeds=range(50))
    assert isinstance(failed.value.__cause__, Deadlock)


def test_waiting_for_a_task_that_died_unseen_deadlocks_because_of_its_failure() -> None:
    async def scenario() -> None:
        done = asyncio.Event()

        async def worker() -> None:
            raise ZeroDivisionError
            done.set()

        start(worker())
        await done.wait()

    with pytest.raises(Deadlock) as stuck:
        under_fifo(scenario)
    assert isinstance(stuck.value.__cause__, ZeroDivisionError)


def test_sleeping_for_ever_is_a_deadlock() -> None:
    with pytest.raises(Deadlock):
        under_fifo(partial(asyncio.sleep, math.inf))


def test_a_scenario_that_never_stops_stepping_is_a_livelock() -> None:
    async def scenario() -> None:
        while True:
            await asyncio.sleep(1)

    with pytest.raises(ScheduleFailed) as failed:
        simulate(scenario, max_steps=1000)
    assert isinstance(failed.value.__cause__, LiveLock)
    assert failed.value.__cause__.tasks[0].startswith("scenario")
    with pytest.raises(LiveLock):
        replay(scenario, seed=0, max_steps=1000)


def test_a_task_left_running_is_a_leak_and_is_cancelled() -> None:
    ended: list[str] = []

    async def forgotten() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(1)
            ended.append("cleaned up")

    async def scenario() -> None:
        start(forgotten(), name="orphan")
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    with pytest.raises(LeakedTask) as leaked:
        under_fifo(scenario)
    assert len(leaked.value.tasks) == 1
    assert leaked.value.tasks[0].startswith("orphan at ")
    assert ended == ["cleaned up"]


def test_a_task_that_was_cancelled_but_not_awaited_is_a_leak_under_every_seed() -> None:
    async def scenario() -> None:
        asyncio.create_task(asyncio.sleep(1), name="unawaited").cancel()

    for seed in range(20):
        with pytest.raises(LeakedTask, match="unawaited"):
            replay(scenario, seed)


def test_a_task_that_refuses_to_end_is_still_reported_as_a_leak() -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async def scenario() -> None:
        start(stubborn(), name="stubborn")
        await asyncio.sleep(1)

    with pytest.raises(LeakedTask, match="stubborn"):
        under_fifo(scenario)


def test_a_task_that_failed_with_nobody_looking_fails_the_run() -> None:
    async def broken() -> None:
        raise ZeroDivisionError("unseen")

    async def scenario() -> None:
        start(broken())
        await asyncio.sleep(1)

    with pytest.raises(UnseenFailure, match="unseen") as unseen:
        under_fifo(scenario)
    assert isinstance(unseen.value, LeakedTask)
    assert isinstance(unseen.value.__cause__, ZeroDivisionError)


def test_a_failure_that_a_done_callback_looks_at_is_seen_under_every_seed() -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    async def scenario() -> None:
        seen: list[BaseException | None] = []
        task = asyncio.create_task(broken())
        task.add_done_callback(lambda done: seen.append(done.exception()))
        while not task.done():
            await asyncio.sleep(0)

    simulate(scenario)


def test_a_callback_that_raises_fails_the_run() -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().call_soon({}.popitem)
        await asyncio.sleep(1)

    with pytest.raises(UnseenFailure) as unseen:
        under_fifo(scenario)
    assert isinstance(unseen.value.__cause__, KeyError)


def test_a_failing_scenario_outranks_the_tasks_it_leaves_behind() -> None:
    async def scenario() -> None:
        start(asyncio.sleep(1))
        raise LookupError("the real reason")

    with pytest.raises(LookupError, match="the real reason"):
        under_fifo(scenario)


def test_nothing_is_logged_and_nothing_warns_when_broken_runs_are_collected(
    caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    async def stuck() -> None:
        start(asyncio.Event().wait())
        await asyncio.Event().wait()

    for _ in range(3):
        with pytest.raises(Deadlock):
            under_fifo(stuck)
    gc.collect()
    assert not caplog.records
    assert not recwarn.list


# --- Faithful to asyncio --------------------------------------------------------------------


def test_plain_callbacks_keep_the_order_they_were_registered_in() -> None:
    async def scenario() -> None:
        loop, seen = asyncio.get_running_loop(), list[int]()
        for number in range(20):
            loop.call_soon(seen.append, number)
            if number % 3 == 0:
                await asyncio.sleep(0)
        while len(seen) < 20:
            await asyncio.sleep(0)
        assert seen == list(range(20))

    simulate(scenario)


def test_a_done_callback_runs_before_whoever_awaits_the_task_afterwards() -> None:
    async def scenario() -> None:
        owned: set[asyncio.Task[None]] = set()
        task = asyncio.create_task(asyncio.sleep(1))
        owned.add(task)
        task.add_done_callback(owned.discard)
        await task
        assert not owned

    simulate(scenario)


def test_cancelling_a_task_through_call_soon_is_a_callback_and_not_a_step() -> None:
    async def scenario() -> tuple[str, ...]:
        task = asyncio.create_task(asyncio.sleep(9), name="cancelled")
        await asyncio.sleep(1)
        asyncio.get_running_loop().call_soon(task.cancel)
        await asyncio.wait({task})
        return simulated_loop().trace

    # The start, and the step that raises; the cancel itself is none.
    assert under_fifo(scenario).count("cancelled") == 2


PROGRAM = st.lists(
    st.lists(st.sampled_from(["yield", "put", "get", "set", "wait", "lock"]), max_size=6),
    min_size=1,
    max_size=4,
)


@sampled
@given(PROGRAM)
@settings(max_examples=choose_size(30, 150), deadline=None)
def test_fifo_runs_any_program_in_the_order_of_a_stock_loop(program: list[list[str]]) -> None:
    assert under_fifo(partial(interpret, program)) == asyncio.run(interpret(program))


async def interpret(program: list[list[str]]) -> list[tuple[int, int]]:
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
    flag, lock, log = asyncio.Event(), asyncio.Lock(), list[tuple[int, int]]()

    async def take_lock() -> None:
        async with lock:
            await asyncio.sleep(0)

    async def set_flag() -> None:
        flag.set()

    operations: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "yield": lambda: asyncio.sleep(0),
        "put": lambda: queue.put(1),
        "get": queue.get,
        "set": set_flag,
        "wait": flag.wait,
        "lock": take_lock,
    }

    async def worker(number: int, script: list[str]) -> None:
        for line, operation in enumerate(script):
            await operations[operation]()
            log.append((number, line))

    workers = [asyncio.create_task(worker(*numbered)) for numbered in enumerate(program)]
    for _ in range(60):
        await asyncio.sleep(0)
    for task in workers:
        task.cancel()
    await asyncio.wait(workers)
    return log


def test_events_wake_every_waiter() -> None:
    async def scenario() -> None:
        event, woken = asyncio.Event(), list[int]()

        async def wait(number: int) -> None:
            await event.wait()
            woken.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(wait(number))
            await asyncio.sleep(1)
            assert not woken
            event.set()
        assert sorted(woken) == [0, 1, 2, 3]

    assert simulate(scenario).interleavings > 100


def test_queues_hand_over_every_item_once_and_in_order() -> None:
    async def scenario() -> None:
        queue: asyncio.Queue[tuple[str, int]] = asyncio.Queue(maxsize=2)
        received: list[tuple[str, int]] = []

        async def produce(name: str) -> None:
            for number in range(5):
                await queue.put((name, number))

        async def consume() -> None:
            while True:
                received.append(await queue.get())
                queue.task_done()

        consumers = [asyncio.create_task(consume()) for _ in range(2)]
        await asyncio.gather(produce("a"), produce("b"))
        await queue.join()
        for consumer in consumers:
            consumer.cancel()
        await asyncio.gather(*consumers, return_exceptions=True)
        assert sorted(received) == [(name, number) for name in "ab" for number in range(5)]
        for name in "ab":
            assert [item for item in received if item[0] == name] == [(name, n) for n in range(5)]

    assert simulate(scenario).interleavings > 150


def test_task_groups_cancel_the_others_when_one_fails() -> None:
    async def scenario() -> None:
        cancelled: list[int] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.sleep(9)
            except asyncio.CancelledError:
                cancelled.append(number)
                raise

        async def fail() -> None:
            await asyncio.sleep(1)
            raise LookupError

        async def together() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(3):
                    group.create_task(wait(number))
                group.create_task(fail())

        with pytest.raises(ExceptionGroup) as failed:
            await together()
        assert isinstance(failed.value.exceptions[0], LookupError)
        assert sorted(cancelled) == [0, 1, 2]
        assert simulated_loop().time() == 1

    simulate(scenario)


def test_timeouts_interrupt_at_their_deadline_and_not_before() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(3):
            await asyncio.sleep(2)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.sleep(2)
        assert simulated_loop().time() == 3

    simulate(scenario)


def test_wait_for_returns_or_times_out_and_leaves_no_task() -> None:
    async def scenario() -> None:
        assert await asyncio.wait_for(asyncio.sleep(1, "slept"), timeout=2) == "slept"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), timeout=2)
        assert simulated_loop().time() == 3

    simulate(scenario)


def test_gather_keeps_the_order_of_its_arguments() -> None:
    async def scenario() -> None:
        async def answer(number: int) -> int:
            await asyncio.sleep(number % 2)
            return number

        assert await asyncio.gather(*map(answer, range(6))) == list(range(6))

    assert simulate(scenario).interleavings > 150


def test_semaphores_never_let_in_too_many() -> None:
    async def scenario() -> None:
        semaphore, inside, most = asyncio.Semaphore(2), 0, 0

        async def enter() -> None:
            nonlocal inside, most
            async with semaphore:
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(enter() for _ in range(6)))
        assert most == 2

    simulate(scenario)


def test_shield_as_completed_and_conditions_work() -> None:
    async def scenario() -> None:
        inner = asyncio.create_task(asyncio.sleep(2, "kept"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(inner), timeout=1)
        assert await inner == "kept"
        order = [await done for done in asyncio.as_completed([asyncio.sleep(n, n) for n in (2, 1)])]
        assert order == [1, 2]
        condition, items = asyncio.Condition(), list[int]()

        async def consume() -> int:
            async with condition:
                await condition.wait_for(lambda: items)
                return items.pop()

        async def produce() -> None:
            async with condition:
                items.append(7)
                condition.notify()

        assert (await asyncio.gather(consume(), produce()))[0] == 7

    simulate(scenario)


def test_async_generators_left_open_are_closed_at_the_end() -> None:
    closed: list[str] = []
    kept: list[AsyncIterator[int]] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(1)
            closed.append("closed")

    async def scenario() -> None:
        kept.append(numbers())
        assert await anext(kept[0]) == 1

    under_fifo(scenario)
    assert closed == ["closed"]


def test_real_input_and_output_is_refused() -> None:
    async def scenario() -> None:
        with pytest.raises(NotImplementedError):
            await asyncio.create_subprocess_exec("true")
        with pytest.raises(NotImplementedError):
            await asyncio.get_running_loop().connect_read_pipe(asyncio.Protocol, sys.stdin)

    under_fifo(scenario)


# --- Threads --------------------------------------------------------------------------------


def test_thread_calls_return_and_raise_without_a_thread() -> None:
    async def scenario() -> None:
        assert await asyncio.to_thread(threading.get_ident) == threading.get_ident()
        with ThreadPoolExecutor() as pool:
            loop = asyncio.get_running_loop()
            assert await loop.run_in_executor(pool, divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(divmod, 1, 0)

    simulate(scenario)


def test_a_thread_call_sees_the_context_but_no_running_loop() -> None:
    who = ContextVar("who", default="nobody")

    def look() -> tuple[str, bool]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return who.get(), False
        return who.get(), True

    async def scenario() -> None:
        who.set("me")
        assert await asyncio.to_thread(look) == ("me", False)
        assert await asyncio.get_running_loop().run_in_executor(None, look) == ("nobody", False)
        assert asyncio.get_running_loop() is simulated_loop()

    under_fifo(scenario)


def test_thread_calls_interleave_with_tasks_in_a_reproducible_order() -> None:
    async def scenario() -> str:
        log: list[str] = []

        async def ticker() -> None:
            for tick in "123":
                log.append(tick)
                await asyncio.sleep(0)

        await asyncio.gather(ticker(), *(asyncio.to_thread(log.append, name) for name in "ab"))
        return "".join(log)

    orders = [replay(scenario, seed) for seed in range(100)]
    assert orders == [replay(scenario, seed) for seed in range(100)]
    assert len(set(orders)) > 10
    assert {"".join(sorted(order)) for order in orders} == {"123ab"}


def test_a_thread_call_runs_before_its_cancellation_or_after_it_or_never() -> None:
    seen: Counter[str] = Counter()

    async def scenario() -> None:
        effects: list[str] = []
        task = asyncio.create_task(
            asyncio.to_thread(lambda: effects.append("after" if task.cancelling() else "before"))
        )
        for _ in range(4):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        await asyncio.sleep(1)
        seen.update(effects or ["never"])

    simulate(scenario)
    assert set(seen) == {"before", "after", "never"}


# --- Injection ------------------------------------------------------------------------------


async def transfer(bank: dict[str, int], *, careful: bool) -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(1)
    bank["from"] -= 1
    try:
        await asyncio.sleep(0 if careful else 2)
    finally:
        if careful:
            bank["to"] += 1
    if not careful:
        bank["to"] += 1
    await asyncio.sleep(0)
    await asyncio.sleep(3)


def transfer_under_cancellation(
    *, careful: bool
) -> Callable[[InjectionPoint], Coroutine[Any, Any, None]]:
    async def scenario(hook: InjectionPoint) -> None:
        bank = {"from": 1, "to": 0}
        task = asyncio.create_task(transfer(bank, careful=careful))
        hook.arm(task.cancel)
        await asyncio.wait({task})
        assert sum(bank.values()) == 1, bank

    return scenario


def test_a_bug_that_needs_a_cancellation_at_one_await_is_found_there_and_replays() -> None:
    scenario = transfer_under_cancellation(careful=False)
    with pytest.raises(ScheduleFailed) as found:
        enumerate_awaits(scenario)

    point = found.value.point
    assert point is not None
    assert found.value.seed is None
    assert f"inject_at(scenario, InjectionPoint({point}))" in str(found.value)
    with pytest.raises(AssertionError, match="'from': 0, 'to': 0"):
        inject_at(scenario, InjectionPoint(point))
    inject_at(scenario, InjectionPoint(point - 1))


def test_code_that_survives_a_cancellation_at_every_await_passes() -> None:
    points = enumerate_awaits(transfer_under_cancellation(careful=True))
    assert points > 10


def test_a_cancellation_reaches_each_await_both_before_and_after_its_result_is_there() -> None:
    interrupted: set[tuple[str, bool]] = set()

    async def scenario(hook: InjectionPoint) -> None:
        reached = ["start"]
        ready: dict[str, asyncio.Future[None]] = {}

        async def victim() -> None:
            for place in ("first", "second", "third"):
                reached.append(place)
                ready[place] = asyncio.get_running_loop().create_future()
                asyncio.get_running_loop().call_later(1, ready[place].set_result, None)
                await asyncio.shield(ready[place])

        def inject() -> None:
            place = reached[-1]
            interrupted.add((place, place in ready and ready[place].done()))
            task.cancel()

        task = asyncio.create_task(victim())
        hook.arm(inject)
        await asyncio.wait({task})
        hook.disarm()
        await asyncio.sleep(1)

    enumerate_awaits(scenario)
    places = {(place, done) for place in ("first", "second", "third") for done in (False, True)}
    assert interrupted >= {("start", False), *places}


def test_the_points_of_a_scenario_are_all_its_callbacks_and_clock_jumps_since_it_was_armed() -> (
    None
):
    async def scenario(hook: InjectionPoint) -> None:
        await asyncio.sleep(5)
        hook.arm(lambda: None)
        asyncio.get_running_loop().call_later(0.5, pytest.fail).cancel()  # None.
        await asyncio.sleep(0)  # One: the step that follows.
        await asyncio.sleep(1)  # Three: the jump, the timer, the step.

    assert enumerate_awaits(scenario) == 4


def test_an_injected_coroutine_is_run_and_awaited() -> None:
    stopped: list[float] = []

    async def scenario(hook: InjectionPoint) -> None:
        async def stop() -> None:
            await asyncio.sleep(10)
            stopped.append(simulated_loop().time())

        hook.arm(stop)
        await asyncio.sleep(1)

    points = enumerate_awaits(scenario)
    assert len(stopped) == points
    assert min(stopped) == 10


def test_an_injected_coroutine_that_fails_is_a_failure_at_its_point() -> None:
    async def scenario(hook: InjectionPoint) -> None:
        async def stop() -> None:
            assert simulated_loop().time() == 0, "stopped too late"

        hook.arm(stop)
        await asyncio.sleep(1)

    with pytest.raises(ScheduleFailed, match="stopped too late") as failed:
        enumerate_awaits(scenario)
    assert failed.value.point == 1


def test_a_hook_that_is_never_armed_is_refused() -> None:
    async def scenario(_hook: InjectionPoint) -> None:
        await asyncio.sleep(1)

    with pytest.raises(ValueError, match="never armed"):
        enumerate_awaits(scenario)


def test_cancelling_a_scenario_everywhere_finds_the_await_that_leaks_a_task() -> None:
    def scenario(*, owned: bool) -> Callable[[], Coroutine[Any, Any, None]]:
        async def leaky() -> None:
            child = asyncio.create_task(asyncio.sleep(1), name="child")
            await asyncio.sleep(0.5)
            await child

        async def tidy() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(1), name="child")
                await asyncio.sleep(0.5)

        return tidy if owned else leaky

    assert enumerate_awaits(inject_cancellation(scenario(owned=True))) > 5
    with pytest.raises(ScheduleFailed, match="child") as failed:
        enumerate_awaits(inject_cancellation(scenario(owned=False)))
    assert isinstance(failed.value.__cause__, LeakedTask)


def test_injections_combine_with_a_seeded_schedule() -> None:
    scenario = transfer_under_cancellation(careful=True)
    for seed in range(20):
        assert enumerate_awaits(scenario, policy=partial(RandomOrder, seed)) > 10
