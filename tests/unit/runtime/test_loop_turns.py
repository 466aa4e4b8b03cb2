"""Sharing the event loop: many runs that are ready at once continue a few per turn, in order."""

import asyncio
from collections import Counter

from awaken import Agent, AgentRuntime
from awaken.models import InferenceRequest
from awaken.runtime.primitives.signals import RUNS_PER_TURN, LoopTurns
from awaken.testing import ScriptedModel


async def count_turns(turn: list[int]) -> None:
    while True:
        turn[0] += 1
        await asyncio.sleep(0)


def test_waiting_runs_continue_in_order_and_a_few_per_turn() -> None:
    async def scenario() -> list[tuple[int, int]]:
        turns, turn, seen = LoopTurns(), [0], list[tuple[int, int]]()
        loop = asyncio.get_running_loop()
        ticker = asyncio.create_task(count_turns(turn))

        async def ask(number: int) -> None:
            await turns.wait(loop)
            seen.append((turn[0], number))

        await asyncio.gather(*map(ask, range(5 * RUNS_PER_TURN)))
        ticker.cancel()
        return seen

    seen = asyncio.run(scenario())
    assert [number for _, number in seen] == list(range(5 * RUNS_PER_TURN))
    assert max(Counter(turn for turn, _ in seen).values()) <= RUNS_PER_TURN


def test_a_run_that_is_cancelled_while_it_waits_takes_no_place() -> None:
    async def scenario() -> None:
        turns, loop = LoopTurns(), asyncio.get_running_loop()
        asked = [asyncio.create_task(turns.wait(loop)) for _ in range(3 * RUNS_PER_TURN)]
        await asyncio.sleep(0)
        waiting = [task for task in asked if not task.done()]
        assert len(waiting) == 2 * RUNS_PER_TURN
        for task in waiting[:RUNS_PER_TURN]:
            task.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        assert all(task.done() for task in asked)
        assert sum(task.cancelled() for task in asked) == RUNS_PER_TURN

    asyncio.run(scenario())


def test_runs_of_another_event_loop_neither_wait_for_these_nor_drop_them() -> None:
    turns = LoopTurns()

    async def ask(count: int) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(5):
            await asyncio.gather(*(turns.wait(loop) for _ in range(count)))

    async def leave_some() -> asyncio.Task[None]:
        asked = asyncio.create_task(ask(3 * RUNS_PER_TURN))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not asked.done()
        return asked

    first, gone = asyncio.new_event_loop(), asyncio.new_event_loop()
    asked = first.run_until_complete(leave_some())
    gone.run_until_complete(ask(1))
    gone.close()
    asyncio.run(ask(3 * RUNS_PER_TURN))
    first.run_until_complete(asked)
    first.run_until_complete(asyncio.sleep(0))
    first.close()


def test_other_work_has_its_turn_between_many_runs_that_start_and_hear_at_once() -> None:
    async def scenario() -> tuple[Counter[int], int]:
        asked, turn = Counter[int](), [0]

        async def answer(_: InferenceRequest) -> str:
            asked[turn[0]] += 1
            await asyncio.sleep(0)
            return "Hello."

        model = ScriptedModel([answer], cycle=True)
        async with AgentRuntime([Agent("a", model=model)]) as runtime:
            ticker = asyncio.create_task(count_turns(turn))
            runs = [runtime.run("a", "hi") for _ in range(8 * RUNS_PER_TURN)]
            await asyncio.gather(*runs)
            ticker.cancel()
            return asked, runtime._engine.services.turns.runs

    asked, left = asyncio.run(scenario())
    assert sum(asked.values()) == 8 * RUNS_PER_TURN
    # The first ones find a process with few runs and do not ask.
    assert max(asked.values()) <= 2 * RUNS_PER_TURN + 1
    assert left == 0
