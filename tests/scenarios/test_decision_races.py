"""Decisions from several processes on one ticket: whoever comes second is told so."""

import asyncio

import pytest

from awaken import Agent, tool
from awaken.buses.memory import MemoryBus
from awaken.errors import AlreadyDecided
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import ToolCallResume

from .asking import Asking
from .nodes import Node, TruthStore
from .workers import asking_agent, open_ticket
from .worlds import simulated


def decision(answer: str) -> ToolCallResume:
    return ToolCallResume(decision_id=answer, result=answer)


@pytest.mark.parametrize("late_at", ["load_run", "find_ticket", "decide"])
def test_a_decision_that_was_under_way_when_another_one_was_taken_is_refused(late_at: str) -> None:
    async def scenario() -> None:
        truth, (asking, agent) = TruthStore(), asking_agent()
        bus = MemoryBus()
        await bus.open()
        async with Node(truth, [agent], bus=bus) as node:
            await node.submit()
            ticket = await open_ticket(truth)
            other = Node(truth, [agent], name="other")
            # It has seen that the ticket is open; then the first decision lets the run go on.
            other.wire.delays[late_at] = 0.1
            node.wire.delays["decide"] = 0.08
            late = asyncio.create_task(other.mailbox.decide([(ticket, decision("no"))]))
            await node.mailbox.decide([(ticket, decision("yes"))])
            with pytest.raises(AlreadyDecided):
                await late
            while (await truth.load_thread("t")).open_run_id is not None:  # type: ignore[union-attr]
                await asyncio.sleep(0.1)
        assert asking.ran[1:] == [("?", "yes")]

    simulated(scenario)


def test_a_decision_sent_to_a_run_that_meanwhile_waits_and_gets_another_one_is_refused() -> None:
    @tool
    async def slow() -> str:
        await asyncio.sleep(1)
        return "slept"

    async def scenario() -> None:
        truth, asking, bus = TruthStore(), Asking(), MemoryBus()
        model = ScriptedModel([ToolCalls([("ask", {"question": "?"}), ("slow", {})]), "thanks"])
        agent = Agent("agent", model=model, tools=[*asking.tools, slow])
        await bus.open()
        async with Node(truth, [agent], bus=bus) as node:
            await node.submit()
            while not (tickets := await truth.list_tickets("t")):
                await asyncio.sleep(0.01)
            ticket = tickets[0].ticket_id
            other = Node(truth, [agent], name="other")
            other.wire.delays["decide"] = 2
            late = asyncio.create_task(other.mailbox.decide([(ticket, decision("no"))]))
            await open_ticket(truth)
            await node.mailbox.decide([(ticket, decision("yes"))])
            with pytest.raises(AlreadyDecided):
                await late
        assert asking.ran[1:] == [("?", "yes")]

    simulated(scenario)


def test_the_same_decision_under_way_twice_is_taken_once_and_both_are_told_so() -> None:
    async def scenario() -> None:
        truth, (asking, agent) = TruthStore(), asking_agent()
        bus = MemoryBus()
        await bus.open()
        async with Node(truth, [agent], bus=bus) as node:
            await node.submit()
            ticket = await open_ticket(truth)
            other = Node(truth, [agent], name="other")
            other.wire.delays["decide"] = 0.1
            node.wire.delays["decide"] = 0.08
            receipts = await asyncio.gather(
                other.mailbox.decide([(ticket, decision("yes"))]),
                node.mailbox.decide([(ticket, decision("yes"))]),
            )
            assert receipts[0] == receipts[1]
            while (await truth.load_thread("t")).open_run_id is not None:  # type: ignore[union-attr]
                await asyncio.sleep(0.1)
        assert asking.ran[1:] == [("?", "yes")]

    simulated(scenario)
