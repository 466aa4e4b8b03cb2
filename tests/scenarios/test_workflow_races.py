"""What losers of a race leave: events that they did nothing with, and no open ticket."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from awaken import AgentRuntime, RunStatus, WorkflowContext, tool, workflow
from awaken.contracts.workflows.operations import WorkflowOperation

from .each_store import NewStore, each_store, memory
from .test_workflows import World, awaited, ended, journal, until


@tool(effect="none")
async def double(x: int) -> int:
    """Double a number."""
    return x * 2


async def parked(runtime: AgentRuntime, run_id: str, *names: str) -> None:
    """Wait until a run holds nothing and waits for these alone."""

    async def is_so() -> bool:
        run = await runtime.get_run(run_id)
        assert run.status is not RunStatus.DONE, run.termination
        found = await runtime.store.list_run_tickets(run.thread_id, run_id)
        waits = sorted(it.tool_name for it in found if it.status == "open")
        return run.status is RunStatus.WAITING and waits == sorted(names)

    await until(runtime, is_so)


async def _two_events(ctx: WorkflowContext) -> Any:
    return await ctx.race(ctx.wait_for("a"), ctx.wait_for("b"))


async def _functions(ctx: WorkflowContext) -> Any:
    async def get(name: str) -> Any:
        return await ctx.wait_for(name)

    return await ctx.race(get("a"), get("b"))


async def _gathered(ctx: WorkflowContext) -> Any:
    return await ctx.race(ctx.wait_for("a"), ctx.gather(ctx.wait_for("b"), ctx.wait_for("never")))


async def _raced(ctx: WorkflowContext) -> Any:
    inner = ctx.race(ctx.wait_for("never"), ctx.wait_for("b"))
    return await ctx.race(ctx.wait_for("a"), inner)


async def _below_a_gather(ctx: WorkflowContext) -> Any:
    found = await ctx.gather(_two_events(ctx), ctx.call(double, 2))
    return found[0]


@each_store
@pytest.mark.parametrize("way", [_two_events, _functions, _gathered, _raced, _below_a_gather])
@awaited
async def test_the_event_of_a_loser_stays_for_the_next_step(
    new_store: NewStore, tmp_path: Path, way: Any
) -> None:
    @workflow(tools=[double])
    async def rivals(ctx: WorkflowContext) -> Any:
        await ctx.wait_for("go")
        first = await way(ctx)
        await ctx.wait_for("again")
        found = [first, await ctx.wait_for("b"), await ctx.wait_for("b")]
        await ctx.wait_for("end")
        return found

    world = World(new_store, tmp_path)
    async with world.process(rivals) as runtime:
        run_id = (await runtime.run("rivals", {})).run_id
        for number, (name, payload) in enumerate([("a", 1), ("b", 2), ("b", 3), ("go", 0)]):
            await runtime.send_event(run_id, name, payload, event_id=f"e{number}")
        await parked(runtime, run_id, "again")
    async with world.process(rivals) as runtime:
        await runtime.send_event(run_id, "again")
        await parked(runtime, run_id, "end")
    async with world.process(rivals) as runtime:
        await runtime.send_event(run_id, "end")
        assert json.loads((await ended(runtime, run_id)).text) == [[0, 1], 2, 3]


@each_store
@awaited
async def test_an_event_with_which_a_loser_went_on_does_not_come_again(
    new_store: NewStore, tmp_path: Path
) -> None:
    @workflow(tools=[double])
    async def pump(ctx: WorkflowContext) -> Any:
        seen: list[int] = []

        async def work() -> None:
            while True:
                seen.append(await ctx.call(double, await ctx.wait_for("n", int)))

        await ctx.race(work(), ctx.wait_for("stop"))
        await ctx.wait_for("again")
        rest = await ctx.race(ctx.wait_for("n"), ctx.sleep(0))
        return [seen, rest[0]]

    world = World(new_store, tmp_path)
    async with world.process(pump) as runtime:
        run_id = (await runtime.run("pump", {})).run_id
        for number in range(3):
            await runtime.send_event(run_id, "n", number)
        await until(runtime, lambda: _has_calls(runtime, run_id, 3))
        await parked(runtime, run_id, "n", "stop")
        await runtime.send_event(run_id, "stop")
        await parked(runtime, run_id, "again")
    async with world.process(pump) as runtime:
        await runtime.send_event(run_id, "again")
        assert json.loads((await ended(runtime, run_id)).text) == [[0, 2, 4], 1]


@awaited
async def test_what_is_given_back_goes_to_a_step_that_waits_already(tmp_path: Path) -> None:
    @workflow
    async def both(ctx: WorkflowContext) -> Any:
        await ctx.wait_for("go")
        return await ctx.gather(_two_events(ctx), _later(ctx))

    async def _later(ctx: WorkflowContext) -> Any:
        return await ctx.wait_for("b")

    async with World(memory, tmp_path).process(both) as runtime:
        run_id = (await runtime.run("both", {})).run_id
        for name in ("a", "b", "go"):
            await runtime.send_event(run_id, name, name)
        assert json.loads((await ended(runtime, run_id)).text) == [[0, "a"], "b"]


@awaited
async def test_what_losers_took_goes_to_the_fresh_run(tmp_path: Path) -> None:
    @workflow
    async def chain(ctx: WorkflowContext, number: int = 0) -> Any:
        if number:
            return await ctx.wait_for("b")
        await ctx.wait_for("go")
        await _two_events(ctx)
        ctx.continue_as_new({"number": 1})

    async with World(memory, tmp_path).process(chain) as runtime:
        first = await runtime.run("chain", {})
        for name in ("a", "b", "go"):
            await runtime.send_event(first.run_id, name, name)
        result = await ended(runtime, first.run_id)
        assert result.continued_as is not None
        await until(runtime, lambda: _exists(runtime, str(result.continued_as)))
        assert json.loads((await ended(runtime, result.continued_as)).text) == "b"


async def _has_calls(runtime: AgentRuntime, run_id: str, count: int) -> bool:
    return [kind for _, kind in await journal(runtime, run_id)].count("call") == count


async def _exists(runtime: AgentRuntime, run_id: str) -> bool:
    return await runtime.store.load_run(run_id) is not None


@each_store
@awaited
async def test_a_loser_that_goes_on_while_its_race_ends_leaves_no_ticket(
    new_store: NewStore, tmp_path: Path
) -> None:
    paid: list[int] = []

    @tool(effect="once")
    async def pay(x: int) -> int:
        """Pay."""
        paid.append(x)
        return x

    @workflow(tools=[double, pay])
    async def close(ctx: WorkflowContext) -> Any:
        async def wait(x: int) -> None:
            await ctx.call(double, x)
            await ctx.wait_for("never")

        async def act(x: int) -> None:
            await ctx.call(double, x)
            await ctx.call(pay, x)

        found = await ctx.race(ctx.call(double, 0), act(1), wait(2), act(3), wait(4))
        await ctx.wait_for("end")
        return found

    world = World(new_store, tmp_path)
    async with world.process(close) as runtime:
        run_id = (await runtime.run("close", {})).run_id
        await parked(runtime, run_id, "end")
    async with world.process(close) as runtime:
        await runtime.send_event(run_id, "end")
        assert json.loads((await ended(runtime, run_id)).text) == [0, 0]
    assert paid == []


def test_branches_that_a_closed_operation_never_began_are_closed_with_it() -> None:
    """A race that a loser never came to begin left coroutines, of which Python warns."""
    begun = list[str]()

    async def read(name: str) -> None:
        begun.append(name)

    def make(name: str, *branches: Any) -> WorkflowOperation[Any]:
        return WorkflowOperation(unawaited, name, never, branches)

    async def never() -> None:
        begun.append("an operation")

    unawaited = dict[int, WorkflowOperation[Any]]()
    works = [read("a"), read("b")]
    make("race", make("gather", works[0]), works[1], "no branch").close()
    assert [inspect.getcoroutinestate(it) for it in works] == [inspect.CORO_CLOSED] * 2
    assert not unawaited
    assert not begun
