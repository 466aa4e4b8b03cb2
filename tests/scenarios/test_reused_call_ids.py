"""Call ids that a model uses again, and tickets from before they said what they ask."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, NaturalEnd, ToolCallDone, ToolCallReady, tool
from awaken.contracts.suspension.ticket_names import find_by_call, find_by_id, find_ticket
from awaken.errors import AmbiguousTicket, UnknownTicket
from awaken.extensions.permission import PermissionPlugin
from awaken.messages import Role
from awaken.stores import Commit, CommitReceipt, MemoryStore
from awaken.testing import ScriptedModel, ToolCalls, assert_valid_transcript
from awaken.tools import Suspension, Ticket, TicketStatus


class Acting:
    """An agent that acts under the ids that a script gives its calls."""

    def __init__(self, script: list[Any], **options: Any) -> None:
        self.ran: list[str] = []

        @tool(effect="once")
        async def act(name: str) -> str:
            """Act."""
            self.ran.append(name)
            return f"did {name}"

        self.agent = Agent("a", model=ScriptedModel(script), tools=[act], **options)


def call(name: str, id_: str = "x") -> ToolCalls:
    return ToolCalls([("act", {"name": name}, id_)])


def test_an_id_that_an_earlier_call_of_the_thread_had_is_replaced() -> None:
    async def scenario() -> None:
        acting = Acting([call("one"), call("two"), "done", call("three"), "done"])
        async with AgentRuntime([acting.agent]) as runtime:
            seen: list[Any] = []
            for text in ("go", "again"):
                seen += [it async for it in runtime.stream("a", text, thread_id="t")]
            messages = [it.message for it in await runtime.messages("t")]
            assert_valid_transcript(messages)
            ids = [it.id for message in messages for it in message.tool_calls or ()]
            assert (ids[0], len(ids), len(set(ids))) == ("x", 3, 3)
            assert acting.ran == ["one", "two", "three"]
            answers = {it.tool_call_id: it.text for it in messages if it.role is Role.TOOL}
            assert [answers[it] for it in ids] == ["did one", "did two", "did three"]
            for kind in (ToolCallReady, ToolCallDone):
                assert [it.id for it in seen if isinstance(it, kind)] == ids

    asyncio.run(scenario())


class OldTickets(MemoryStore):
    """A store whose tickets look like those of the version before."""

    async def commit(self, commit: Commit) -> CommitReceipt:
        tickets = tuple(map(_old, commit.tickets))
        return await super().commit(msgspec.structs.replace(commit, tickets=tickets))


def _old(ticket: Ticket) -> Ticket:
    named = msgspec.structs.replace(ticket.suspension, id=f"perm_{ticket.call_id}")
    before = {"asks": None, "topic": None, "arguments_hash": "", "suspension": named}
    return msgspec.structs.replace(ticket, **before)


@pytest.mark.parametrize("said", [None, True, {"approved": True}, False, {"approved": False}])
def test_a_ticket_of_before_is_decided_once_and_means_what_it_meant(said: Any) -> None:
    async def scenario() -> None:
        rules = {"permission": {"default_behavior": "ask"}}
        acting = Acting([call("one"), "done"], plugins=[PermissionPlugin()], config=rules)
        async with AgentRuntime([acting.agent], store=OldTickets()) as runtime:
            waiting = await runtime.run("a", "go", thread_id="t")
            (ticket,) = await runtime.tickets("t")
            assert (ticket.suspension.id, ticket.asks) == ("perm_x", None)
            remember = {"scope": "thread"}
            await runtime.decide(ticket.ticket_id, result=said, remember=remember)
            ended = await runtime.wait(waiting.run_id)
            assert ended.termination == NaturalEnd()
            is_yes = said not in (False, {"approved": False})
            assert acting.ran == (["one"] if is_yes else [])

    asyncio.run(scenario())


def ticket(id_: str, call_id: str, status: TicketStatus = TicketStatus.OPEN, **more: Any) -> Ticket:
    ids = {"ticket_id": id_, "thread_id": "t", "run_id": "r", "call_id": call_id}
    return Ticket(**ids, tool_name="act", status=status, **more)


def test_a_name_that_may_mean_two_tickets_means_none() -> None:
    first, second = ticket("k1", "x"), ticket("k2", "perm_x", suspension=Suspension(id="perm_x"))
    assert find_ticket([first, second], "x") is first
    assert find_ticket([first, second], "perm_x") is second
    assert find_ticket([first, second], "k2") is second
    named = ticket("k3", "k1")
    with pytest.raises(AmbiguousTicket, match="k1, k3"):
        find_ticket([first, named], "k1")
    assert find_by_id([first, named], "k1") is first
    assert find_by_call([first, named], "k1") is named
    with pytest.raises(AmbiguousTicket, match="several are open"):
        find_by_call([first, ticket("k4", "x")], "x")
    for name in ("suspension", "perm_k1", ""):
        with pytest.raises(UnknownTicket):
            find_ticket([first, second], name)


def test_an_earlier_call_of_the_same_id_makes_it_ambiguous_not_an_earlier_question() -> None:
    decided = ticket("k1", "x", TicketStatus.DECIDED)
    with pytest.raises(AmbiguousTicket, match="several calls"):
        find_by_call([decided, ticket("k2", "x")], "x")
    asked_again = ticket("k2", "x", answered=(decided.question,))
    assert find_by_call([decided, asked_again], "x") is asked_again
    assert find_by_call([decided], "x") is decided
