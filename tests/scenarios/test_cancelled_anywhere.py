"""Cancelling: at any moment, by anybody, with everything kept that was seen or done before."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from awaken import (
    AgentEvent,
    AgentRuntime,
    Cancelled,
    NaturalEnd,
    Phase,
    ReasoningDelta,
    RunStatus,
    StepStart,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    ToolContext,
    tool,
    user,
)
from awaken.events import InferenceComplete, StateSnapshot
from awaken.models import Stop, StopReason
from awaken.plugins import RUN_LIFECYCLE
from awaken.testing import (
    Chunks,
    Entry,
    InjectionPoint,
    Reasoning,
    ToolCalls,
    Turn,
    assert_valid_events,
    assert_valid_transcript,
    enumerate_awaits,
)

from .worlds import Hooks, React, World, assert_valid_at_every_commit, play, simulated

CANCELLED = "[The run was cancelled]"
SLOW_TEXT = Chunks(["one ", "two ", "three"], delay_ms=1000)


@tool
async def wait(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@tool(effect="none")
async def ask(ctx: ToolContext) -> object:
    return ctx.suspend("May I?")


def cancel_at(kind: type, seconds: float = 0) -> React:
    """Cancel some time after the first event of a kind."""

    async def react(runtime: AgentRuntime, event: AgentEvent) -> None:
        if isinstance(event, kind):
            loop = asyncio.get_running_loop()
            loop.call_later(seconds, lambda: loop.create_task(runtime.cancel("t")))

    return react


WAITS = ToolCalls([("wait", {"seconds": 1}), ("wait", {"seconds": 9}), ("wait", {"seconds": 2})])


@pytest.mark.parametrize(
    ("script", "react", "lines"),
    [
        ([SLOW_TEXT], cancel_at(TextDelta, 1.5), [("assistant", "one two ")]),
        ([Turn("hi", delay_ms=5000)], cancel_at(StepStart, 1), []),
        (
            [Turn(SLOW_TEXT, reasoning=Reasoning("hm"))],
            cancel_at(ReasoningDelta),
            [("assistant", "one ")],
        ),
        (
            [WAITS, "never"],
            cancel_at(InferenceComplete, 3),
            [("assistant", ""), ("tool", "1.0"), ("tool", CANCELLED), ("tool", "2.0")],
        ),
        (
            [ToolCalls([("ask", {}), ("wait", {"seconds": 9})]), "never"],
            cancel_at(InferenceComplete, 3),
            [("assistant", ""), ("tool", CANCELLED), ("tool", CANCELLED)],
        ),
    ],
    ids=["in text", "before text", "in thought", "in tools", "beside a waiting call"],
)
def test_a_cancelled_run_keeps_what_was_seen_and_done_and_answers_the_rest(
    script: list[Entry], react: React, lines: list[tuple[str, str]]
) -> None:
    story = play(script, tools=[wait, ask], react=react)

    assert story.termination == Cancelled(cause="user")
    tools = [line for line in story.lines[1:] if line[0] == "tool"]
    assert sorted(tools) == sorted(line for line in lines if line[0] == "tool")
    assert [line for line in story.lines[1:] if line[0] != "tool"] == [
        line for line in lines if line[0] != "tool"
    ]
    assert story.record is not None
    assert (story.record.status, story.record.steps) == (RunStatus.DONE, 1)
    life = story.of(StateSnapshot)[-1].snapshot["extensions"][RUN_LIFECYCLE.name]
    assert life["status"] == "done"


def test_leaving_the_runtime_cancels_what_still_runs() -> None:
    async def scenario() -> World:
        async with World([SLOW_TEXT]) as world:
            await world.runtime.start("agent", "go", thread_id="t")
            await asyncio.sleep(1.5)
        return world

    world = simulated(scenario)
    assert world.store.commits[-1].run is not None
    assert world.store.commits[-1].run.termination == Cancelled(cause="shutdown")


def test_a_tool_that_ignores_its_cancellation_is_left_behind_after_the_grace() -> None:
    @tool
    async def stubborn() -> str:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(50)
        return "late"

    async def scenario() -> tuple[Any, float]:
        async with World([ToolCalls([("stubborn", {})])], tools=[stubborn]) as world:
            story = await world.tell(react=cancel_at(InferenceComplete, 1))
            ended = asyncio.get_running_loop().time()
            await asyncio.sleep(100)
            return story, ended

    story, ended = simulated(scenario)
    assert (story.answers, ended) == ([CANCELLED], 6)


class Swallowing:
    """A provider that swallows its cancellation and then asks for a tool."""

    name = "swallowing"

    async def stream(self, _request: object) -> Any:
        yield TextDelta(delta="one")
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            yield TextDelta(delta=" two")
        yield ToolCallStart(id="c1", name="wait")
        yield ToolCallDelta(id="c1", args_delta='{"seconds": 1}')
        yield Stop(reason=StopReason.TOOL_USE)


def test_a_provider_that_swallows_a_cancellation_gets_no_tool_run() -> None:
    story = play(model=Swallowing(), tools=[wait], react=cancel_at(TextDelta))

    assert story.termination == Cancelled(cause="user")
    assert story.lines[1:] == [
        ("assistant", "one two"),
        ("tool", "[Tool execution was interrupted]"),
    ]


@pytest.mark.parametrize(
    ("phase", "requests"), [(Phase.BEFORE_INFERENCE, 0), (Phase.AFTER_TOOL_EXECUTE, 1)]
)
def test_a_hook_that_swallows_a_cancellation_is_the_last_thing_that_happens(
    phase: Phase, requests: int
) -> None:
    async def swallow(_context: object) -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return

    calls = ToolCalls([("wait", {"seconds": 1})])
    plugins = [Hooks({phase: swallow})]
    story = play([calls, "never"], tools=[wait], plugins=plugins, react=cancel_at(StepStart, 5))

    assert story.termination == Cancelled(cause="user")
    assert len(story.requests) == requests


def _caller(world: World, victim: asyncio.Task[Any]) -> Callable[[], object]:
    return victim.cancel


def _caller_twice(world: World, victim: asyncio.Task[Any]) -> Callable[[], object]:
    def cancel() -> None:
        victim.cancel()
        asyncio.get_running_loop().call_soon(victim.cancel)

    return cancel


def _user(world: World, victim: asyncio.Task[Any]) -> Callable[[], object]:
    return lambda: world.runtime.cancel("t")


@pytest.mark.parametrize("who", [_user, _caller, _caller_twice])
@pytest.mark.parametrize("parallel", [True, False])
def test_a_run_cancelled_at_any_await_ends_once_whole_and_durable(who: Any, parallel: bool) -> None:
    ends: set[str] = set()

    async def scenario(point: InjectionPoint) -> None:
        calls = ToolCalls([("wait", {"seconds": 2}), ("wait", {"seconds": 1})], text="hm")
        async with World([calls, "done"], tools=[wait], parallel_tools=parallel) as world:
            request = world.runtime.run("agent", [user("a"), user("b")], thread_id="t")
            victim = asyncio.ensure_future(request)
            point.arm(who(world, victim))
            await asyncio.wait({victim})
            await point.settle()
        ends.add(await _judged_end(world))

    points = enumerate_awaits(scenario)
    assert points > 20
    assert ends >= {"natural_end", "cancelled"}


async def _judged_end(world: World) -> str:
    checkout = await world.store.checkout("t")
    if checkout is None:
        return "nothing"
    record = checkout.latest_run
    assert record is not None
    assert record.status is RunStatus.DONE
    assert_valid_events([entry.event for entry in await world.store.list_events("t")])
    assert_valid_transcript(checkout.messages)
    assert_valid_at_every_commit(world.store.commits)
    assert world.model.problems == []
    assert world.model.open_streams == 0
    return str(record.termination.__struct_config__.tag)


def test_a_cancellation_that_comes_too_late_changes_nothing() -> None:
    async def scenario() -> None:
        async with World(["done"]) as world:
            story = await world.tell()
            assert story.termination == NaturalEnd()
            assert not await world.runtime.cancel("t")
            assert not await world.runtime.cancel(str(story.result and story.result.run_id))
            assert not await world.runtime.cancel("nobody")

    simulated(scenario)
