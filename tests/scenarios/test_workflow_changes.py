"""Every way to change a workflow under an open run: nothing executes, and no run ends by it.

Each change is an old and a new way of one workflow whose run is parked. The check before a
deployment names the run; a process with the new code executes nothing; the old code goes on.
"""

import asyncio
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, RunStatus, WorkflowContext, tool, workflow
from awaken.bootstrap.upgrade import check_upgrade
from awaken.testing import ScriptedModel

from .each_store import sqlite
from .test_workflows import World, ended, until

Code = Callable[..., Awaitable[Any]]
DONE: list[str] = []


@tool(effect="once")
async def act(text: str) -> str:
    """Act on the world."""
    DONE.append(text)
    return text


async def _wait(ctx: WorkflowContext) -> str:
    await ctx.wait_for("go")
    return "went"


async def _act_later(ctx: WorkflowContext) -> str:
    await ctx.wait_for("go")
    return await ctx.call(act, "later")


async def _nothing() -> None:
    return None


class Small(msgspec.Struct):
    n: int


class Large(msgspec.Struct):
    n: int
    m: int


def old(name: str) -> Code:  # noqa: C901
    """The code that has left a run parked."""

    async def code(ctx: WorkflowContext) -> Any:  # noqa: C901, PLR0911, PLR0912 - a case per change
        match name:
            case "race":
                return await ctx.race(ctx.wait_for("go"), ctx.sleep(days=5))
            case "a race that opens":
                return await ctx.race(_wait(ctx), ctx.sleep(days=5))
            case "gather":
                return await ctx.gather(_act_later(ctx), ctx.wait_for("other", timeout=1e6))
            case "a branch without its step":
                return await ctx.gather(_act_later(ctx), ctx.wait_for("go"))
            case "an event's name":
                return await ctx.wait_for("go")
            case "an event's schema":
                return await ctx.wait_for("go", int)
            case "an event's schema that is taken away":
                return await ctx.wait_for("go", int)
            case "an event that has come":
                await ctx.wait_for("first", Small)
            case "an agent's answer":
                await ctx.ask("child", {}, int)
            case "arguments" | "another tool" | "a step less" | "another order":
                await ctx.call(act, "one")
            case "sleep":
                return await ctx.race(ctx.wait_for("go"), ctx.sleep(days=1))
            case "approve":
                return await ctx.race(ctx.wait_for("go"), ctx.approve("Pay 5?"))
            case "a status":
                ctx.set_status("one")
            case "a value":
                await ctx.random()
            case "a patch that is gone":
                ctx.patched("p")
            case "a retry":
                await ctx.call(act, "one", retry=2)
        return await _act_later(ctx)

    return code


def new(name: str) -> Code:  # noqa: C901
    """The code that is deployed over it."""

    async def code(ctx: WorkflowContext) -> Any:  # noqa: C901, PLR0911, PLR0912 - a case per change
        match name:
            case "race":
                return await ctx.race(ctx.wait_for("go"), ctx.sleep(days=5), ctx.call(act, "third"))
            case "a race that opens":
                return await ctx.gather(_wait(ctx), ctx.sleep(days=5))
            case "gather":
                return await ctx.gather(
                    _act_later(ctx), ctx.wait_for("other", timeout=1e6), ctx.call(act, "third")
                )
            case "a branch without its step":
                return await ctx.gather(_act_later(ctx), _nothing())
            case "an event's name":
                return await ctx.wait_for("start")
            case "an event's schema":
                return await ctx.wait_for("go", str)
            case "an event's schema that is taken away":
                return await ctx.wait_for("go")
            case "an event that has come":
                await ctx.wait_for("first", Large)
            case "an agent's answer":
                await ctx.ask("child", {}, list[int])
            case "arguments":
                await ctx.call(act, "two")
            case "another tool":
                await ctx.call("other", text="one")
            case "another order":
                await ctx.wait_for("go")
                await ctx.call(act, "one")
            case "sleep":
                return await ctx.race(ctx.wait_for("go"), ctx.sleep(days=2))
            case "approve":
                return await ctx.race(ctx.wait_for("go"), ctx.approve("Pay 5000?"))
            case "a status":
                ctx.set_status("two")
            case "a value":
                await ctx.uuid()
            case "a retry":
                await ctx.call("other", text="one", retry=2)
            case "an error":
                raise ValueError("oops")
        return await _act_later(ctx)

    return code


CHANGES = [
    "race",
    "a race that opens",
    "gather",
    "a branch without its step",
    "an event's name",
    "an event's schema",
    "an event's schema that is taken away",
    "an event that has come",
    "an agent's answer",
    "arguments",
    "another tool",
    "a step less",
    "another order",
    "sleep",
    "approve",
    "a status",
    "a value",
    "a patch that is gone",
    "a retry",
    "an error",
]


@workflow
async def child(ctx: WorkflowContext) -> int:
    return 5


def make(code: Callable[[str], Code]) -> list[Any]:
    made = [workflow(id=_id(it), tools=[act])(code(it)) for it in CHANGES]

    async def fewer(ctx: WorkflowContext) -> Any:
        return await _act_later(ctx)

    async def more(ctx: WorkflowContext, must: int) -> Any:
        return await _act_later(ctx)

    is_old = code is old
    made.append(workflow(id="parameter", tools=[act])(fewer if is_old else more))
    agent = Agent("kind", model=ScriptedModel(["hi"] * 9))
    made.append(workflow(id="kind", tools=[act])(fewer) if is_old else agent)
    return [*made, child]


def _id(name: str) -> str:
    return name.replace(" ", "-").replace("'", "")


@pytest.mark.filterwarnings("error")
def test_a_changed_workflow_executes_nothing_and_ends_no_run(tmp_path: Path) -> None:
    async def story() -> None:
        DONE.clear()
        world, runs = World(sqlite, tmp_path), dict[str, str]()
        names = [it.id for it in make(old) if it.id != "child"]
        async with world.process(*make(old)) as runtime:
            for name in names:
                runs[name] = (await runtime.run(name, {})).run_id
            await runtime.send_event(runs["an-event-that-has-come"], "first", {"n": 1})
            await until(runtime, lambda: _waits_for(runtime, runs["an-event-that-has-come"], "go"))
        before = list(DONE)

        async with world.process(*make(old)) as runtime:
            report = await check_upgrade(runtime.store, make(old))
            assert report.is_safe, report.stranded
            report = await check_upgrade(runtime.store, make(new))
            named = {it.agent_id: it.problems for it in report.stranded}
            assert sorted(named) == sorted(names)
            assert before == DONE

        async with world.process(*make(new)) as runtime:
            for name in names:
                await runtime.send_event(runs[name], "go", 7)
            for name in names:
                await until(runtime, lambda run_id=runs[name]: _is_diverged(runtime, run_id))
            assert before == DONE
            kept = (await runtime.get_run(runs["kind"])).waiting
            assert kept is not None
            assert kept.ticket_ids

        async with world.process(*make(old)) as runtime:
            await runtime.send_event(runs["gather"], "other")
            await runtime.send_event(runs["a-branch-without-its-step"], "go")
            for name in names:
                assert (await ended(runtime, runs[name])).status is RunStatus.DONE, name
                assert (
                    type((await runtime.get_run(runs[name])).termination).__name__ == "NaturalEnd"
                )

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(story())


def test_the_check_takes_an_agent_that_is_registered_and_a_delegate(tmp_path: Path) -> None:
    helper = Agent("helper", model=ScriptedModel(["hi"]))
    boss = Agent("boss", model=ScriptedModel(["hi"]), delegates=[helper])

    async def story() -> None:
        async with World(sqlite, tmp_path).process(helper, boss) as runtime:
            assert (await check_upgrade(runtime.store, [helper, boss])).is_safe

    asyncio.run(story())


async def _is_diverged(runtime: AgentRuntime, run_id: str) -> Any:
    run = await runtime.get_run(run_id)
    assert run.status is not RunStatus.DONE, (run.agent_id, run.termination)
    return run.waiting is not None and run.waiting.diverged


async def _waits_for(runtime: AgentRuntime, run_id: str, event: str) -> bool:
    found = await runtime.store.list_run_tickets((await runtime.get_run(run_id)).thread_id, run_id)
    return any(it.tool_name == event for it in found if it.status == "open")
