"""What a process that goes on with a run must not forget: what calls have read, and children."""

import asyncio
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Cancelled,
    Failed,
    Plugin,
    PluginRegistrar,
    RunRequest,
    StateKey,
    ToolContext,
    tool,
    user,
)
from awaken.messages import Role
from awaken.plugins import StateScope
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import Delegation

from .crashes import Dead, Process, after_the_lease, history, shared_store, texts
from .delegating import NO_RETRIES, Door, child_of, ended, nothing_ordered
from .mortal import PROMPT, Mortal, dying, on_shared_stores
from .worlds import simulated

PRICE: StateKey[int, int] = StateKey("test.price", default=0, scope=StateScope.THREAD)
SUM: StateKey[int, int] = StateKey("test.sum", default=0, scope=StateScope.THREAD)


class Keys(Plugin):
    """Declares what the tools write."""

    name = "keys"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.key(PRICE)
        registrar.key(SUM)


def build_tools(effect: str, ran: list[str]) -> list[Any]:
    @tool(effect=effect)
    async def set_price(ctx: ToolContext) -> str:
        ran.append(ctx.call_id)
        await asyncio.sleep(3)
        ctx.state.set(PRICE, 7)
        return "set"

    @tool(effect=effect)
    async def add_up(ctx: ToolContext) -> int:
        ran.append(ctx.call_id)
        total = ctx.state.get(PRICE) + 1
        ctx.state.set(SUM, total)
        return total

    @tool(effect=effect)
    async def take_long(ctx: ToolContext) -> str:
        ran.append(ctx.call_id)
        await asyncio.sleep(9)
        return "at last"

    return [set_price, add_up, take_long]


@pytest.mark.parametrize("effect", ["idempotent", "once"])
def test_a_call_that_was_over_counts_as_having_read_what_it_read(effect: str) -> None:
    """It ran on a price that a sibling before it has changed since; then the process died."""
    calls = ToolCalls(
        [("set_price", {}, "c1"), ("take_long", {}, "c2"), ("add_up", {}, "c3")],
    )

    async def scenario() -> tuple[list[str], dict[str, Any]]:
        ran: list[str] = []
        tools, store = build_tools(effect, ran), shared_store()
        first = Process(store, [calls, "done"], tools=tools, plugins=[Keys()])
        asked = RunRequest(agent_id="a", thread_id="t", run_id_hint="r", messages=(user("go"),))
        execution = asyncio.create_task(first.engine.run(asked))
        await asyncio.sleep(5)
        first.line.cut()
        with pytest.raises(Dead):
            await execution
        ran.clear()
        await after_the_lease(store)
        await Process(store, [calls, "done"], tools=tools, plugins=[Keys()]).execute_next()
        return ran, await history(store)

    ran, found = simulated(scenario)
    if effect == "idempotent":
        assert texts(found)[2:5] == ["set", "at last", "8"]
        assert found["state"] == {"test.price": b"7", "test.sum": b"8"}
        assert ran == ["c2", "c3"]
    else:
        assert texts(found)[4].startswith("[state_conflict] ")
        assert found["state"] == {"test.price": b"7"}
        assert ran == []


def build_agents(door: Door) -> list[Agent]:
    """One that hires another in a call that is never made again, and whose model then fails."""

    @tool(effect="once")
    async def hire(ctx: ToolContext) -> str:
        """Have the work done."""
        return (await ctx.sub_runs.delegate(Delegation(agent_id="worker", prompt="go"))).text

    @tool(effect="idempotent")
    async def wait() -> str:
        """Stand before the door."""
        return await door.answer()

    def answer(request: Any) -> Any:
        if any(it.role is Role.TOOL for it in request.messages):
            raise RuntimeError("the model is gone")
        return ToolCalls([("hire", {})])

    def work(request: Any) -> Any:
        is_over = any(it.role is Role.TOOL for it in request.messages)
        return "done" if is_over else ToolCalls([("wait", {})])

    return [
        Agent("boss", model=ScriptedModel([answer], cycle=True), config=NO_RETRIES, tools=[hire]),
        Agent("worker", model=ScriptedModel([work], cycle=True), tools=[wait]),
    ]


@on_shared_stores
def test_a_recovered_run_that_fails_stops_the_children_of_the_process_before(
    stores_of: Any, tmp_path: Any
) -> None:
    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        door = Door()
        mortal = Mortal(first)

        def process(store: Any) -> AgentRuntime:
            return AgentRuntime(build_agents(door), store=store, mailbox=PROMPT)

        async with dying(process(mortal)) as rt:
            await rt.start("boss", "hi", thread_id="t", run_id_hint="r")
            await door.opened()
            mortal.is_cut = True
        async with process(second) as rt:
            assert isinstance((await ended(rt, "r")).termination, Failed)
            child = await ended(rt, (await child_of(rt, "r")).run_id)
            assert child.termination == Cancelled(cause="parent")
            await nothing_ordered(rt)

    asyncio.run(scenario())
