"""A finished run leaves nothing for the garbage collector: reference counts free all of it."""

import asyncio
import gc
import logging
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, StateKey, ToolContext, tool
from awaken.testing import ScriptedModel, ToolCalls

WARM, RUNS = 5, 20
COUNT: StateKey[int, int] = StateKey("count", default=0, apply=lambda value, more: value + more)


@tool(effect="none")
async def look_up(key: str) -> str:
    """Look something up."""
    return key


@tool(effect="none")
async def wait_a_turn(key: str) -> dict[str, str]:
    """Look something up, with a turn of the event loop."""
    await asyncio.sleep(0)
    return {"key": key}


@tool(effect="none")
def work_in_thread(key: str) -> str:
    """Look something up in a worker thread."""
    return key


@tool(effect="once")
async def use_context(key: str, ctx: ToolContext) -> str:
    """Use what a context offers."""
    ctx.progress("running", key)
    ctx.emit_output(key)
    ctx.state.update(COUNT, ctx.state.get(COUNT) + 1)
    return key


@tool(effect="none")
async def fail(key: str) -> str:
    """Raise an error with a cause."""
    try:
        return os.environ[key]
    except KeyError as error:
        raise RuntimeError(key) from error


@tool(effect="none")
async def leave(key: str) -> str:
    """Raise an error that ends other programs."""
    raise SystemExit(key)


@pytest.fixture(autouse=True)
def no_log() -> Iterator[None]:
    """The log capture of the test runner would keep the errors that are logged."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class _Forgetting(list[Any]):
    """What a test model remembers of its requests is no part of the runtime."""

    def append(self, _: Any) -> None:
        pass


async def find_garbage(calls: ToolCalls) -> dict[str, int]:
    """The kinds of unreachable objects of which there is at least one for each run."""
    model = ScriptedModel([calls, "Done."], cycle=True)
    model.requests = _Forgetting()
    tools: list[Any] = [look_up, wait_a_turn, work_in_thread, use_context, fail, leave]
    async with AgentRuntime([Agent("a", model=model, tools=tools)]) as runtime:
        for _ in range(WARM):
            await runtime.run("a", "hello")
        gc.collect()
        gc.disable()
        try:
            for _ in range(RUNS):
                await runtime.run("a", "hello")
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            found = Counter(type(it).__qualname__ for it in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    return {name: count for name, count in found.items() if count >= RUNS}


@pytest.mark.parametrize("name", ["look_up", "wait_a_turn", "use_context"])
def test_a_turn_with_a_tool_leaves_no_cycle(name: str) -> None:
    assert asyncio.run(find_garbage(ToolCalls([(name, {"key": "a"})]))) == {}


def test_a_turn_with_a_tool_in_a_thread_leaves_no_cycle() -> None:
    assert asyncio.run(find_garbage(ToolCalls([("work_in_thread", {"key": "a"})]))) == {}


@pytest.mark.parametrize("name", ["look_up", "wait_a_turn", "use_context"])
def test_a_turn_with_twenty_calls_at_once_leaves_no_cycle(name: str) -> None:
    assert asyncio.run(find_garbage(ToolCalls([(name, {"key": "a"})] * 20))) == {}


@pytest.mark.parametrize("name", ["fail", "leave", "unknown"])
def test_a_turn_with_a_failed_call_leaves_no_cycle(name: str) -> None:
    assert asyncio.run(find_garbage(ToolCalls([(name, {"key": "a"})]))) == {}


def test_a_turn_with_refused_arguments_leaves_no_cycle() -> None:
    assert asyncio.run(find_garbage(ToolCalls([("look_up", {"kay": "a"})]))) == {}
