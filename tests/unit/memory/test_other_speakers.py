"""A run acts for the user of its newest message: nobody asks for the memory of another."""

import asyncio
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, RunRequest, tool
from awaken.contracts.suspension.tickets import DecisionAction, ToolCallResume
from awaken.extensions.memory import FactSource, MemoryPlugin, user_memory
from awaken.extensions.permission import PermissionPlugin, ask
from awaken.messages import user
from awaken.stores import MemoryStore, SqliteStore
from awaken.testing import ScriptedModel, ToolCalls

ANN = {"tenant_id": "acme", "user_id": "ann"}
BOB = {"tenant_id": "acme", "user_id": "bob"}


@tool(approval=True)
async def approve() -> str:
    """Ask first."""
    return "yes"


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
def test_a_message_to_a_waiting_run_of_another_user_finds_nothing_of_that_user(
    kind: Any, tmp_path: Any
) -> None:
    wait, recall = ToolCalls([("approve", {})]), ToolCalls([("recall", {"query": "platypus"})])
    model = ScriptedModel([wait, wait, recall, "Done."])

    async def main() -> None:
        store = MemoryStore() if kind is MemoryStore else SqliteStore(tmp_path / "a.db")
        agent = Agent("a", model=model, plugins=[MemoryPlugin()], tools=[approve])
        async with AgentRuntime([agent], store=store) as runtime:
            ann = user_memory("acme", "ann")
            await runtime.memory.remember(ann, ["Ann owns a platypus."], FactSource())
            first = await runtime.run("a", "Go.", thread_id="t", **ANN)
            second = await runtime.run("a", "What does she own?", thread_id="t", **BOB)
            assert (await runtime.get_run(second.run_id)).user_id == "bob"
            # Also after a decision, which says nothing new.
            (ticket,) = await runtime.tickets()
            await runtime.decide(ticket.ticket_id, "resume")
            assert (await runtime.wait(ticket.run_id)).text == "Done."
            assert first.run_id

    asyncio.run(asyncio.wait_for(main(), 30))
    assert "platypus" in model.requests[0].messages[0].text
    for request in model.requests[1:]:
        assert not [it for it in request.messages if "Ann owns" in it.text]


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
def test_a_call_that_another_user_lets_pass_with_a_message_acts_for_the_user_who_asked(
    kind: Any, tmp_path: Any
) -> None:
    remember = ToolCalls([("remember", {"fact": "Ann owns a platypus."})])

    async def main() -> None:
        store = MemoryStore() if kind is MemoryStore else SqliteStore(tmp_path / "a.db")
        plugins = [MemoryPlugin(), PermissionPlugin([ask("remember(*)")])]
        agent = Agent("a", model=ScriptedModel([remember, "Done."]), plugins=plugins)
        async with AgentRuntime([agent], store=store) as runtime:
            await runtime.run("a", "I own a platypus.", thread_id="t", **ANN)
            (ticket,) = await runtime.tickets()
            decision = ToolCallResume(decision_id="d", action=DecisionAction.RESUME, updated_at=1)
            request = RunRequest(
                thread_id="t",
                agent_id="a",
                messages=(user("I am Bob."),),
                decisions=((ticket.ticket_id, decision),),
                **BOB,
            )
            result = await (await runtime.start(request)).result()
            assert (await runtime.get_run(result.run_id)).user_id == "bob"
            anns = await runtime.memory.list_facts(user_memory("acme", "ann"))
            assert [it.text for it in anns.items] == ["Ann owns a platypus."]
            assert (await runtime.memory.list_facts(user_memory("acme", "bob"))).items == ()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_message_of_another_user_is_not_taken_into_an_executing_run(tmp_path: Any) -> None:
    started, goes_on = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        """Work."""
        started.set()
        await goes_on.wait()
        return "worked"

    recall = ToolCalls([("recall", {"query": "platypus"})])
    model = ScriptedModel([ToolCalls([("work", {})]), "Worked.", recall, "Nothing."])

    async def main() -> None:
        agent = Agent("a", model=model, plugins=[MemoryPlugin()], tools=[work])
        async with AgentRuntime([agent], store=SqliteStore(tmp_path / "a.db")) as runtime:
            ann = user_memory("acme", "ann")
            await runtime.memory.remember(ann, ["Ann owns a platypus."], FactSource())
            handle = await runtime.start("a", "Go.", thread_id="t", **ANN)
            await started.wait()
            receipt = await runtime.submit(
                "a", "What does she own?", thread_id="t", mode="steer", **BOB
            )
            goes_on.set()
            assert (await handle.result()).text == "Worked."
            assert (await runtime.wait(receipt.run_id)).text == "Nothing."
            assert (await runtime.get_run(receipt.run_id)).user_id == "bob"

    asyncio.run(asyncio.wait_for(main(), 30))
    for request in model.requests[2:]:
        assert not [it for it in request.messages if "Ann owns" in it.text]
