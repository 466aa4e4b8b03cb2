"""A tool's way back to its run: open until the call has its result, and no burden afterwards."""

import asyncio
import gc

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.errors import Misuse
from awaken.events import ToolCallStreamDelta
from awaken.testing import LoopClock, ScriptedModel, ToolCalls

from .worlds import play, simulated


@tool
async def add(a: int) -> int:
    return a + 1


def test_a_run_with_tools_is_gone_as_soon_as_it_is_over() -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("add", {"a": 1})]), "done"], cycle=True)
        agent = Agent("agent", model=model, tools=[add])
        async with AgentRuntime([agent], clock=LoopClock()) as runtime:
            await runtime.run("agent", "go")
            gc.collect()
            gc.disable()
            try:
                await runtime.run("agent", "go")
                assert gc.collect() == 0
            finally:
                gc.enable()

    simulated(scenario)


def test_nothing_is_heard_of_a_call_after_its_result() -> None:
    tasks = []

    async def speak_later(ctx: ToolContext) -> None:
        await asyncio.sleep(1)
        ctx.emit_output("late")

    @tool
    async def quick(ctx: ToolContext) -> str:
        ctx.emit_output("early")
        tasks.append(asyncio.create_task(speak_later(ctx)))
        return "done"

    @tool
    async def slow() -> str:
        await asyncio.sleep(2)
        return "done"

    story = play([ToolCalls([("quick", {}), ("slow", {})]), "ok"], tools=[quick, slow])
    assert all(task.done() for task in tasks)
    assert [event.delta for event in story.of(ToolCallStreamDelta)] == ["early"]


def test_a_call_that_has_its_result_can_start_nothing() -> None:
    refused = []

    async def start_later(ctx: ToolContext) -> None:
        await asyncio.sleep(1)
        try:
            _ = ctx.sub_runs
        except Misuse as error:
            refused.append(str(error))

    @tool
    async def quick(ctx: ToolContext) -> str:
        tasks.append(asyncio.create_task(start_later(ctx)))
        return "done"

    @tool
    async def slow() -> str:
        await asyncio.sleep(2)
        return "done"

    tasks: list[asyncio.Task[None]] = []
    play([ToolCalls([("quick", {}), ("slow", {})]), "ok"], tools=[quick, slow])
    assert refused == ["The call is over; it can no longer start anything."]
