"""Stopping a run: at once, for a known cause, keeping what was done, leaving nothing behind."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken import Cancelled, NaturalEnd, Phase, RunStatus, StateKey, ToolContext, tool
from awaken.testing import ToolCalls

from .asking import retold
from .worlds import Hooks, World, simulated

CANCELLED = "[The run was cancelled]"


@tool
async def talk(ctx: ToolContext) -> str:
    """Say something and go on forever."""
    ctx.emit_output("hello")
    await asyncio.Event().wait()
    return "never"


def test_a_run_cancelled_before_its_first_step_is_durable_and_asks_no_model() -> None:
    async def scenario() -> None:
        world = World(["never"])
        run = asyncio.create_task(world.runtime.run("agent", "go", thread_id="t"))
        await asyncio.sleep(0)
        assert await world.runtime.cancel("t")
        result = await run
        assert (result.termination, result.steps) == (Cancelled(cause="user"), 0)
        assert world.model.requests == []
        story = await retold(world)
        assert story.types == ["run_start", "run_finish"]
        assert story.lines == [("user", "go")]

    simulated(scenario)


async def by_caller(world: World, run: "asyncio.Task[Any]") -> None:
    run.cancel()


async def by_user(world: World, run: "asyncio.Task[Any]") -> None:
    assert await world.runtime.cancel("t")


async def by_shutdown(world: World, run: "asyncio.Task[Any]") -> None:
    await world.runtime.__aexit__(None, None, None)


async def by_user_and_caller(world: World, run: "asyncio.Task[Any]") -> None:
    await world.runtime.cancel("t")
    await asyncio.sleep(0.5)
    run.cancel()


Stop = Callable[[World, "asyncio.Task[Any]"], Awaitable[None]]


@pytest.mark.parametrize(
    ("stop", "cause", "raised"),
    [
        (by_user, "user", None),
        (by_caller, "caller", asyncio.CancelledError),
        (by_shutdown, "shutdown", None),
        (by_user_and_caller, "user", asyncio.CancelledError),
    ],
)
def test_finished_results_survive_in_call_order_whoever_stops_the_run(
    stop: Stop, cause: str, raised: type[BaseException] | None
) -> None:
    note = StateKey[list[int], int](
        "note", default=[], apply=lambda old, new: sorted([*old, new]), merge="commutative"
    )

    @tool
    async def wait(seconds: int, ctx: ToolContext) -> str:
        try:
            await asyncio.sleep(seconds)
        finally:
            await asyncio.sleep(1)
        ctx.state.update(note, seconds)
        return f"waited {seconds}"

    async def scenario() -> None:
        calls = [("wait", {"seconds": n}) for n in (50, 2, 60, 3)]
        world = World([ToolCalls(calls)], tools=[wait])
        run = asyncio.create_task(world.runtime.run("agent", "go", thread_id="t"))
        await asyncio.sleep(10)
        await stop(world, run)
        (outcome,) = await asyncio.gather(run, return_exceptions=True)
        assert isinstance(outcome, raised) if raised else outcome.status is RunStatus.DONE
        story = await retold(world)
        assert story.termination == Cancelled(cause=cause)
        # The slow ones take a second to clean up, and the way out waits for them.
        assert asyncio.get_running_loop().time() == 11
        assert story.answers == [CANCELLED, "waited 2", CANCELLED, "waited 3"]
        (stored,) = [c.run_state["note"] for c in world.store.commits if "note" in c.run_state]
        assert stored is not None
        assert bytes(stored.data) == b"[2,3]"

    simulated(scenario)


def test_a_timeout_around_a_run_ends_it_and_is_raised_to_whoever_set_it() -> None:
    async def scenario() -> None:
        world = World([ToolCalls([("talk", {})]), "again"], tools=[talk])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await world.runtime.run("agent", "go", thread_id="t")
        assert (await retold(world)).termination == Cancelled(cause="caller")
        assert (await world.runtime.run("agent", "more", thread_id="t")).text == "again"

    simulated(scenario)


def test_a_run_whose_hook_cancels_it_in_its_last_moment_ends_cancelled() -> None:
    async def scenario() -> None:
        async def cancel(_: Any) -> None:
            assert await world.runtime.cancel("t")

        world = World(["done"], plugins=[Hooks({Phase.STEP_END: cancel})])
        story = await world.tell()
        assert story.termination == Cancelled(cause="user")
        assert story.lines[-1] == ("assistant", "done")

    simulated(scenario)


def test_an_accepted_cancellation_stands_when_foreign_code_makes_an_error_of_it() -> None:
    async def scenario() -> None:
        async def fail(_: Any) -> None:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError as error:
                raise ValueError("boom") from error

        world = World(["never"], plugins=[Hooks({Phase.STEP_START: fail})])
        run = asyncio.create_task(world.runtime.run("agent", "go", thread_id="t"))
        await asyncio.sleep(5)
        assert await world.runtime.cancel("t")
        assert (await run).termination == Cancelled(cause="user")

    simulated(scenario)


def test_a_tool_that_cancels_itself_fails_alone() -> None:
    @tool
    async def suicidal() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    async def scenario() -> None:
        world = World([ToolCalls([("suicidal", {}), ("suicidal", {})]), "bye"], tools=[suicidal])
        story = await world.tell()
        assert story.termination == NaturalEnd()
        assert ["cancelled itself" in answer for answer in story.answers] == [True, True]

    simulated(scenario)


def test_a_result_that_was_void_stays_void_when_its_second_attempt_is_cancelled() -> None:
    count = StateKey("count", default=0, scope="thread")

    async def scenario() -> None:
        @tool(effect="idempotent")
        async def increment(ctx: ToolContext) -> int:
            seen = ctx.state.get(count)
            await asyncio.sleep(1 if seen == 0 else 100)
            ctx.state.set(count, seen + 1)
            return seen + 1

        world = World([ToolCalls([("increment", {})] * 3)], tools=[increment])
        run = asyncio.create_task(world.runtime.run("agent", "go", thread_id="t"))
        await asyncio.sleep(50)
        assert await world.runtime.cancel("t")
        await run
        story = await retold(world)
        checkout = await world.store.checkout("t")
        assert checkout is not None
        assert count.decode(checkout.state["count"]) == 1
        assert story.answers == ["1", CANCELLED, CANCELLED]

    simulated(scenario)
