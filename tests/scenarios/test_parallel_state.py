"""Tools that run side by side never lose each other's state without saying so."""

import asyncio
from typing import Any

import pytest

from awaken import NaturalEnd, StateKey, ToolContext, tool
from awaken.stores import ToolRecordStatus
from awaken.testing import ToolCalls

from .worlds import World, simulated

COUNT = StateKey("count", default=0, scope="thread")
OTHER = StateKey("other", default=0, scope="thread")
SUM = StateKey(
    "sum", default=0, apply=lambda old, new: old + new, merge="commutative", scope="thread"
)
BY_NAME: dict[str, StateKey[int, int]] = {key.name: key for key in (COUNT, OTHER, SUM)}


async def stored(world: World, key: StateKey[Any, Any]) -> Any:
    checkout = await world.store.checkout("t")
    assert checkout is not None
    value = checkout.state.get(key.name)
    return key.default if value is None else key.decode(value)


@pytest.mark.parametrize(
    ("effect", "parallel", "final"),
    [("none", True, 5), ("idempotent", True, 5), ("once", True, 1), ("once", False, 5)],
)
def test_five_increments_side_by_side_are_counted_or_refused_but_never_lost(
    effect: Any, parallel: bool, final: int
) -> None:
    @tool(effect=effect)
    async def increment(pause: float, ctx: ToolContext) -> int:
        seen = ctx.state.get(COUNT)
        await asyncio.sleep(pause)
        ctx.state.set(COUNT, seen + 1)
        return seen + 1

    async def scenario() -> None:
        calls = [("increment", {"pause": pause}) for pause in (3, 1, 2, 0, 1)]
        world = World([ToolCalls(calls), "done"], tools=[increment], parallel_tools=parallel)
        story = await world.tell()
        assert story.termination == NaturalEnd()
        refused = [answer for answer in story.answers if answer.startswith("[state_conflict]")]
        successes = [int(answer) for answer in story.answers if answer not in refused]
        assert successes == list(range(1, final + 1))
        assert len(successes) + len(refused) == 5
        assert await stored(world, COUNT) == final

    simulated(scenario)


READ, SET, UPDATE, CLEAR = "get", "set", "update", "clear"


@pytest.mark.parametrize(
    ("first", "second", "is_sound"),
    [
        ([(SET, "count")], [(SET, "other")], True),
        ([(SET, "count")], [(READ, "other")], True),
        ([(READ, "count")], [(READ, "count")], True),
        ([(READ, "count")], [(SET, "count")], True),
        ([(UPDATE, "sum")], [(UPDATE, "sum")], True),
        ([(SET, "count")], [(SET, "count")], False),
        ([(SET, "count")], [(READ, "count")], False),
        ([(SET, "count")], [(READ, "count"), (SET, "other")], False),
        ([(SET, "count")], [(SET, "other"), (CLEAR, "count")], False),
        ([(CLEAR, "count")], [(READ, "count")], False),
        ([(UPDATE, "sum")], [(READ, "sum")], False),
        ([(UPDATE, "sum")], [(UPDATE, "sum"), (READ, "sum")], False),
        ([(SET, "count")], [(SET, "count"), (READ, "count")], False),
    ],
)
def test_calls_merge_exactly_when_they_could_have_run_one_after_the_other(
    first: list[Any], second: list[Any], is_sound: bool
) -> None:
    @tool
    async def do(ops: list[tuple[str, str]], value: int, ctx: ToolContext) -> str:
        for name, key in ops:
            arguments = (value,) if name in (SET, UPDATE) else ()
            getattr(ctx.state, name)(BY_NAME[key], *arguments)
            await asyncio.sleep(0)
        return "done"

    async def scenario() -> None:
        calls = [("do", {"ops": ops, "value": value}) for value, ops in ((1, first), (10, second))]
        world = World([ToolCalls(calls), "bye"], tools=[do])
        one, two = (await world.tell()).answers
        assert one == "done"
        assert two.startswith("done" if is_sound else "[state_conflict]")
        if not is_sound:
            # Nothing of a refused call is kept, not even what disturbed nobody.
            assert await stored(world, OTHER) == 0
            assert await stored(world, SUM) in (0, 1)

    simulated(scenario)


def test_results_become_durable_one_by_one_while_slower_calls_still_run() -> None:
    @tool
    async def wait(seconds: int) -> int:
        await asyncio.sleep(seconds)
        return seconds

    async def scenario() -> None:
        calls = [("wait", {"seconds": seconds}) for seconds in (30, 10, 20)]
        world = World([ToolCalls(calls), "done"], tools=[wait])
        handle = await world.runtime.start("agent", "go", thread_id="t")
        for finished in ([], ["call_2"], ["call_2", "call_3"]):
            await asyncio.sleep(5)
            records = await world.store.list_tool_records(handle.run_id)
            found = [it.call_id for it in records if it.status is ToolRecordStatus.FINISHED]
            assert found == finished
            await asyncio.sleep(5)
        assert (await handle.result()).termination == NaturalEnd()

    simulated(scenario)


def test_a_call_that_is_run_again_has_its_own_durable_intent_and_the_same_key() -> None:
    ran: list[tuple[str, int, str, list[Any]]] = []

    async def scenario() -> None:
        @tool(effect="idempotent")
        async def increment(ctx: ToolContext) -> int:
            seen = ctx.state.get(COUNT)
            records = [it for commit in world.store.commits for it in commit.tool_records]
            attempts = [it.attempt for it in records if it.call_id == ctx.call_id]
            ran.append((ctx.call_id, seen, ctx.idempotency_key, attempts))
            await asyncio.sleep(1)
            ctx.state.set(COUNT, seen + 1)
            return seen + 1

        world = World([ToolCalls([("increment", {})] * 2), "done"], tools=[increment])
        story = await world.tell()
        assert story.record is not None
        first, second = (f"{story.record.run_id}:1:{name}" for name in ("call_1", "call_2"))
        assert ran == [
            ("call_1", 0, first, [1]),
            ("call_2", 0, second, [1]),
            ("call_2", 1, second, [1, 1, 2]),
        ]
        _, last = await world.store.list_tool_records(story.record.run_id)
        assert (last.attempt, last.status) == (2, ToolRecordStatus.FINISHED)
        assert last.updates == (("count", "update", 2),)

    simulated(scenario)
