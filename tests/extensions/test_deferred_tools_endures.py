"""Deferred tools across a wait, a restart, a change of agent and a call from above."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from awaken import Agent, SuspendTicket, ToolContext, tool
from awaken.extensions.deferred_tools import DeferredToolsPlugin
from awaken.extensions.handoff import HandoffPlugin
from awaken.plugins import agent_type_scope
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import Tool

from .enduring import BOUND_S, NewStore, both_stores, durable

SECTION = {
    "enabled": True,
    "rules": [
        {"tool": "*_0*", "mode": "deferred"},
        {"tool": "*", "mode": "eager"},
    ],
    "disc_beta": {"gamma": 400},
}


def numbered(name: str, count: int = 9) -> list[Tool]:
    """Deferred tools with a schema of some size."""

    def made(number: int) -> Tool:
        @tool(id=f"{name}_{number:02}", effect="none")
        async def lookup(
            customer: str = "", first_year: int = 2000, last_year: int = 2030, remark: str = ""
        ) -> str:
            """Look something up."""
            return "found"

        return lookup

    return [made(number) for number in range(count)]


@tool
async def approve(ctx: ToolContext) -> str | SuspendTicket:
    """Have a person look at it."""
    return ctx.suspend("Fine?") if ctx.resume is None else "fine"


@tool(effect="none")
async def clock() -> str:
    """Tell the time."""
    return "noon"


def agent(name: str, model: ScriptedModel, *plugins: Any, **options: Any) -> Agent:
    """An agent with nine deferred tools of its own."""
    return Agent(
        name,
        model=model,
        tools=[approve, clock, *numbered(name)],
        plugins=[DeferredToolsPlugin(), *plugins],
        config={"deferred_tools": SECTION},
        **options,
    )


def search(*tool_ids: str) -> ToolCalls:
    return ToolCalls([("ToolSearch", {"query": f"select:{','.join(tool_ids)}"})])


def loaded(model: ScriptedModel) -> list[list[str]]:
    """The deferred tools that stood in each request."""
    return [[it.id for it in request.tools if "_0" in it.id] for request in model.requests]


def lists(model: ScriptedModel) -> list[str]:
    """The lists of deferred tools, one for each request."""
    return ["; ".join(request.system) for request in model.requests]


def idle(turns: int) -> list[ToolCalls]:
    return [ToolCalls([("clock", {})]) for _ in range(turns)]


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, BOUND_S))


@both_stores
def test_a_loaded_tool_outlives_a_wait_and_its_turns_count_on(new_store: NewStore) -> None:
    wait = ToolCalls([("approve", {})])
    model = ScriptedModel([search("a_01"), *idle(2), wait, *idle(3), "Done."])

    async def scenario() -> None:
        async with durable(new_store, [agent("a", model)]) as runtime:
            waiting = await runtime.run("a", "Go.", thread_id="t")
            (ticket,) = await runtime.tickets("t")
            await runtime.decide(ticket.ticket_id, "resume")
            done = await runtime.wait(waiting.run_id)
            assert done.text == "Done."

    play(scenario())
    # Five turns without a call, of which three were before the decision.
    assert loaded(model) == [[], *[["a_01"]] * 5, [], []]
    assert len(set(lists(model))) == 1


@both_stores
def test_a_loaded_tool_outlives_the_process(new_store: NewStore) -> None:
    use, wait = ToolCalls([("a_02", {})]), ToolCalls([("approve", {})])
    before = ScriptedModel([search("a_01", "a_02"), use, wait])
    after = ScriptedModel([*idle(3), "Done.", "Still here."])

    async def first_process() -> None:
        async with durable(new_store, [agent("a", before)]) as runtime:
            await runtime.run("a", "Go.", thread_id="t")

    async def second_process() -> None:
        async with durable(new_store, [agent("a", after)]) as runtime:
            (ticket,) = await runtime.tickets("t")
            await runtime.decide(ticket.ticket_id, "resume")
            done = await runtime.wait(ticket.run_id)
            assert done.text == "Done."
            await runtime.run("a", "Anything else?", thread_id="t")

    play(first_process())
    play(second_process())
    both, used = ["a_01", "a_02"], ["a_02"]
    assert loaded(before) == [[], both, both]
    # The sixth turn after the search goes without the tool that nobody called; the next run too.
    assert loaded(after) == [both, both, both, used, used]
    assert set(lists(before)) == set(lists(after))
    assert _learned(new_store, "a") == {"runs": 2, "presence": {"a_02": 1 / 7 / 2}}


@both_stores
def test_agents_that_hand_over_have_their_own_tools_and_lists(new_store: NewStore) -> None:
    def transfer(to: str) -> ToolCalls:
        return ToolCalls([("transfer_to_agent", {"agent_id": to})])

    front = ScriptedModel([search("front_01"), transfer("back"), "Here again."])
    use = ToolCalls([("back_02", {})])
    back = ScriptedModel([search("back_02"), use, transfer("plain")])
    plain = ScriptedModel([transfer("front")])
    desk = HandoffPlugin({"front": "", "back": "", "plain": ""})

    async def scenario() -> None:
        agents = [
            agent("front", front, desk),
            agent("back", back, desk),
            Agent("plain", model=plain, plugins=[desk]),
        ]
        async with durable(new_store, agents) as runtime:
            result = await runtime.run("front", "Go.", thread_id="t")
            assert result.text == "Here again."

    play(scenario())
    assert loaded(front) == [[], ["front_01"], ["front_01"]]
    assert loaded(back) == [[], ["back_02"], ["back_02"]]
    assert all("front_01" in it and "back_01" not in it for it in lists(front))
    assert all("back_01" in it and "front_01" not in it for it in lists(back))
    assert lists(plain) == [""]
    assert _learned(new_store, "back") == {"runs": 1, "presence": {"back_02": 1 / 3}}
    assert _learned(new_store, "front") is None


@both_stores
def test_a_sub_agent_loads_and_learns_for_itself(new_store: NewStore) -> None:
    ask = ToolCalls([("agent_run_below", {"prompt": "Look it up."})])
    above = ScriptedModel([search("above_01"), ask, "Reported."])
    below = ScriptedModel([search("below_03"), ToolCalls([("below_03", {})]), "Found."])

    async def scenario() -> None:
        agents = [agent("above", above, delegates=["below"]), agent("below", below)]
        async with durable(new_store, agents) as runtime:
            result = await runtime.run("above", "Go.", thread_id="t")
            assert result.text == "Reported."

    play(scenario())
    assert loaded(above) == [[], ["above_01"], ["above_01"]]
    assert loaded(below) == [[], ["below_03"], ["below_03"]]
    assert _learned(new_store, "below") == {"runs": 1, "presence": {"below_03": 1 / 3}}
    assert _learned(new_store, "above") is None


def _learned(new_store: NewStore, agent_id: str) -> Any:
    """What the store knows of an agent's use of tools."""
    found: list[Any] = []

    async def scenario() -> None:
        async with durable(new_store, [Agent("x", model=ScriptedModel([]))]) as runtime:
            store: Any = runtime.store
            entry = await store.find_entry(agent_type_scope(agent_id), "deferred_tools.learned")
            found.append(None if entry is None else entry.value)

    play(scenario())
    return found[0]
