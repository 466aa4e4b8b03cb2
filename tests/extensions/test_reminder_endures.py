"""Reminders across a wait, a restart, a change of agent and a call from above."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from awaken import Agent, SuspendTicket, ToolContext, tool
from awaken.extensions.handoff import HandoffPlugin
from awaken.extensions.reminder import ReminderPlugin
from awaken.testing import ScriptedModel, ToolCalls

from .enduring import BOUND_S, NewStore, both_stores, durable


@tool(effect="none")
async def look() -> str:
    """Look."""
    return "seen"


@tool
async def approve(ctx: ToolContext) -> str | SuspendTicket:
    """Have a person look at it."""
    return ctx.suspend("Fine?") if ctx.resume is None else "fine"


def agent(name: str, model: ScriptedModel, *plugins: Any, **options: Any) -> Agent:
    """An agent that is reminded after a look, at most every third turn, and after an approval."""
    rules = [
        {"tool": "look", "message": {"content": f"{name}: looked", "cooldown_turns": 3}},
        {"tool": "approve", "message": {"content": f"{name}: approved"}},
    ]
    return Agent(
        name,
        model=model,
        tools=[look, approve],
        plugins=[ReminderPlugin(), *plugins],
        config={"reminder": {"rules": rules}},
        **options,
    )


LOOK, WAIT = ToolCalls([("look", {})]), ToolCalls([("approve", {})])


def told(model: ScriptedModel) -> list[list[str]]:
    """The reminders of each request."""
    return [
        [it.text for it in request.messages if it.role == "system"] for request in model.requests
    ]


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, BOUND_S))


@both_stores
def test_a_reminder_waits_with_the_run_and_cools_down_across_the_wait(new_store: NewStore) -> None:
    both = ToolCalls([("look", {}), ("approve", {})])
    model = ScriptedModel([both, LOOK, LOOK, LOOK, "Done."])

    async def scenario() -> None:
        async with durable(new_store, [agent("a", model)]) as runtime:
            waiting = await runtime.run("a", "Go.", thread_id="t")
            (ticket,) = await runtime.tickets("t")
            await runtime.decide(ticket.ticket_id, "resume")
            assert (await runtime.wait(waiting.run_id)).text == "Done."

    play(scenario())
    looked, approved = "a: looked", "a: approved"
    assert told(model) == [[], [looked, approved], [], [], [looked]]


@both_stores
def test_a_reminder_and_its_cooldown_outlive_the_process(new_store: NewStore) -> None:
    before = ScriptedModel([ToolCalls([("look", {}), ("approve", {})])])
    after = ScriptedModel([LOOK, LOOK, LOOK, "Done."])

    async def first_process() -> None:
        async with durable(new_store, [agent("a", before)]) as runtime:
            await runtime.run("a", "Go.", thread_id="t")

    async def second_process() -> None:
        async with durable(new_store, [agent("a", after)]) as runtime:
            (ticket,) = await runtime.tickets("t")
            await runtime.decide(ticket.ticket_id, "resume")
            assert (await runtime.wait(ticket.run_id)).text == "Done."

    play(first_process())
    play(second_process())
    assert told(before) == [[]]
    assert told(after) == [["a: looked", "a: approved"], [], [], ["a: looked"]]


@both_stores
def test_an_agent_that_takes_over_has_its_own_reminders_only(new_store: NewStore) -> None:
    desk = HandoffPlugin({"front": "", "back": ""})
    over = ToolCalls([("look", {}), ("transfer_to_agent", {"agent_id": "back"})])
    front, back = ScriptedModel([over]), ScriptedModel([LOOK, "Done."])

    async def scenario() -> None:
        agents = [agent("front", front, desk), agent("back", back, desk)]
        async with durable(new_store, agents) as runtime:
            assert (await runtime.run("front", "Go.", thread_id="t")).text == "Done."

    play(scenario())
    assert told(front) == [[]]
    assert told(back) == [[], ["back: looked"]]


@both_stores
def test_a_sub_agent_is_reminded_for_itself(new_store: NewStore) -> None:
    ask = ToolCalls([("agent_run_below", {"prompt": "Look."})])
    above, below = ScriptedModel([LOOK, ask, "Done."]), ScriptedModel([LOOK, "Seen."])

    async def scenario() -> None:
        agents = [agent("above", above, delegates=["below"]), agent("below", below)]
        async with durable(new_store, agents) as runtime:
            assert (await runtime.run("above", "Go.", thread_id="t")).text == "Done."

    play(scenario())
    assert told(above) == [[], ["above: looked"], []]
    assert told(below) == [[], ["below: looked"]]
