"""Tools of MCP servers over a wait, a restart, a change of agent and a call from above."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, RunResult
from awaken.extensions.handoff import HandoffPlugin
from awaken.extensions.mcp import McpPlugin, McpServer
from awaken.testing import ScriptedModel, ToolCalls, assert_valid_transcript

from .enduring import BOUND_S, NewStore, both_stores, durable
from .mcp_servers.desk import Desk
from .mcp_servers.worlds import local, program

both_eras = pytest.mark.parametrize("era", ["auto", "legacy"])


def agent(name: str, server: McpServer, *turns: Any, **more: Any) -> Agent:
    plugins = [McpPlugin([server]), *more.pop("plugins", ())]
    return Agent(name, model=ScriptedModel([*turns]), plugins=plugins, **more)


def booking(server: McpServer, *turns: Any) -> Agent:
    return agent("a", server, *turns)


async def asked(new_store: NewStore, server: McpServer) -> RunResult:
    """A run that waits for people to answer its server."""
    turn = ToolCalls([("mcp__desk__book", {})])
    async with durable(new_store, [booking(server, turn)]) as runtime:
        result = await runtime.run("a", "book", thread_id="t")
        assert result.is_waiting
        return result


async def decided(new_store: NewStore, server: McpServer, waiting: RunResult) -> list[str]:
    """What the next process makes of the answer."""
    async with durable(new_store, [booking(server, "done")]) as runtime:
        (ticket,) = await runtime.tickets("t")
        await runtime.decide(ticket.ticket_id, result={"seats": 3})
        ended = await runtime.wait(waiting.run_id, timeout_ms=BOUND_S * 1000)
        assert ended.text == "done"
        messages = [it.message for it in await runtime.messages("t")]
        assert_valid_transcript(messages)
        return [it.text for it in messages if it.tool_call_id]


@both_stores
def test_an_answer_reaches_a_stateless_server_from_another_process(new_store: NewStore) -> None:
    first, second = Desk(), Desk()
    waiting = asyncio.run(asked(new_store, local(first)))
    found = asyncio.run(decided(new_store, local(second), waiting))
    assert found == ["accept {'seats': 3}"]
    assert (first.done, second.done) == (["book"], ["book", "booked accept"])


@both_stores
def test_a_question_that_was_held_by_a_process_is_lost_with_it(new_store: NewStore) -> None:
    first, second = Desk(), Desk()
    waiting = asyncio.run(asked(new_store, local(first, protocol="legacy")))
    (text,) = asyncio.run(decided(new_store, local(second, protocol="legacy"), waiting))
    assert "was lost with the process" in text
    assert second.done == []


@both_stores
def test_a_program_serves_the_run_after_a_restart(new_store: NewStore, tmp_path: Path) -> None:
    waiting = asyncio.run(asked(new_store, program(tmp_path)))
    found = asyncio.run(decided(new_store, program(tmp_path), waiting))
    assert found == ["accept {'seats': 3}"]
    assert (tmp_path / "done").read_text().split("\n").count("booked accept") == 1


@both_stores
@both_eras
def test_each_agent_of_a_handoff_has_its_own_servers(new_store: NewStore, era: Any) -> None:
    one, two = Desk(), Desk()
    calls = ToolCalls([("mcp__one__say", {"text": "1"}), ("mcp__two__say", {"text": "2"})])
    plugin = McpPlugin([local(one, "one", protocol=era), local(two, "two", protocol=era)])

    def having(name: str, server: str, *turns: Any) -> Agent:
        plugins = [plugin, HandoffPlugin({"b": "all"})]
        config = {"mcp": {"servers": [server]}}
        return Agent(name, model=ScriptedModel([*turns]), plugins=plugins, config=config)

    async def scenario() -> None:
        handing = ToolCalls([("transfer_to_agent", {"agent_id": "b"})])
        a = having("a", "one", calls, handing)
        b = having("b", "two", calls, "done")
        async with durable(new_store, [a, b]) as runtime:
            result = await runtime.run("a", "go", thread_id="t")
            assert result.text == "done"
        assert (one.done, two.done) == (["say"], ["say"])

    asyncio.run(scenario())


@both_stores
@both_eras
def test_a_delegates_question_reaches_people_and_its_answer_the_server(
    new_store: NewStore, era: Any
) -> None:
    desk = Desk()

    async def scenario() -> None:
        book = ToolCalls([("mcp__desk__book", {})])
        ask = ToolCalls([("agent_run_clerk", {"prompt": "book"})])
        clerk = agent("clerk", local(desk, protocol=era), book, "booked")
        boss = Agent("boss", model=ScriptedModel([ask, "done"]), delegates=["clerk"])
        async with durable(new_store, [boss, clerk]) as runtime:
            waiting = await runtime.run("boss", "go", thread_id="t")
            assert waiting.is_waiting
            (ticket,) = await runtime.tickets("t")
            await runtime.decide(ticket.ticket_id, result={"seats": 1})
            ended = await runtime.wait(waiting.run_id, timeout_ms=BOUND_S * 1000)
            assert ended.text == "done"
        assert desk.done.count("booked accept") == 1

    asyncio.run(scenario())
