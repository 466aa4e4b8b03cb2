"""Memory across a restart, a change of agent and a call from above."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from awaken import Agent
from awaken.extensions.handoff import HandoffPlugin
from awaken.extensions.memory import FactSource, MemoryPlugin, user_memory
from awaken.testing import ScriptedModel, ToolCalls

from .enduring import BOUND_S, NewStore, both_stores, durable

ANN = user_memory("acme", "ann")
WHOSE = {"tenant_id": "acme", "user_id": "ann"}


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, BOUND_S))


def told(model: ScriptedModel) -> list[str]:
    return [it.text for request in model.requests for it in request.messages]


@both_stores
def test_what_one_process_remembers_another_tells_and_forgets(new_store: NewStore) -> None:
    before = ScriptedModel([ToolCalls([("remember", {"fact": "Ann likes tea"})]), "Noted."])
    after = ScriptedModel(["Tea?"])

    async def first_process() -> None:
        agents = [Agent("a", model=before, plugins=[MemoryPlugin()])]
        async with durable(new_store, agents) as runtime:
            await runtime.run("a", "I like tea.", **WHOSE)

    async def second_process() -> None:
        agents = [Agent("a", model=after, plugins=[MemoryPlugin()])]
        async with durable(new_store, agents) as runtime:
            assert (await runtime.run("a", "Hi.", **WHOSE)).text == "Tea?"
            (fact,) = (await runtime.memory.list_facts(ANN)).items
            assert (await runtime.memory.forget(ANN, fact.id)).is_erased

    play(first_process())
    play(second_process())
    assert "Ann likes tea" in told(after)[0]


@both_stores
def test_an_agent_that_takes_over_without_memory_is_told_nothing(new_store: NewStore) -> None:
    desk = HandoffPlugin({"front": "", "back": ""})
    front = ScriptedModel([ToolCalls([("transfer_to_agent", {"agent_id": "back"})])])
    back = ScriptedModel(["Done."])

    async def scenario() -> None:
        agents = [
            Agent("front", model=front, plugins=[MemoryPlugin(), desk]),
            Agent("back", model=back, plugins=[desk]),
        ]
        async with durable(new_store, agents) as runtime:
            await runtime.memory.remember(ANN, ["Ann likes tea"], FactSource())
            assert (await runtime.run("front", "Go.", thread_id="t", **WHOSE)).text == "Done."

    play(scenario())
    assert any("Ann likes tea" in it for it in told(front))
    assert not any("Ann likes tea" in it for it in told(back))


@both_stores
def test_a_sub_agent_has_the_memory_of_the_same_user(new_store: NewStore) -> None:
    above = ScriptedModel([ToolCalls([("agent_run_below", {"prompt": "Go."})]), "Done."])
    below = ScriptedModel([ToolCalls([("recall", {"query": "tea"})]), "Seen."])

    async def scenario() -> None:
        agents = [
            Agent("above", model=above, delegates=["below"]),
            Agent("below", model=below, plugins=[MemoryPlugin()]),
        ]
        async with durable(new_store, agents) as runtime:
            await runtime.memory.remember(ANN, ["Ann likes tea"], FactSource())
            await runtime.memory.remember(user_memory("acme", "bob"), ["Bob's tea"], FactSource())
            assert (await runtime.run("above", "Go.", thread_id="t", **WHOSE)).text == "Done."

    play(scenario())
    assert any("Ann likes tea" in it for it in told(below))
    assert not any("Bob" in it for it in told(below))
