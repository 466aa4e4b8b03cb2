"""A client's tool never takes the place of one that the agent executes, unless its spec says so."""

import asyncio
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.errors import FrontendToolConflict
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import FrontEndTool, ToolDescriptor

from .deciding_world import server_config
from .in_process import ask, bearer

MINE = ToolDescriptor(id="act", name="act", description="The client's.")
FORM = {"type": "object", "properties": {}}


def agent(ran: list[str], **options: Any) -> Agent:
    @tool(effect="none")
    async def act() -> str:
        """Act."""
        ran.append("act")
        return "acted"

    model = ScriptedModel([ToolCalls([("act", {})]), "done"], cycle=True)
    return Agent("a", model=model, **{"tools": [act], **options})


def bodies() -> dict[str, Any]:
    """A request with the tool, by path."""
    said = {"id": "m", "role": "user", "content": "go"}
    parts = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "go"}]}
    shown = {"name": "act", "description": "Mine.", "parameters": FORM}
    return {
        "/v1/ag-ui/run": {"agentId": "a", "messages": [said], "tools": [shown]},
        "/v1/ai-sdk/chat": {"agentId": "a", "messages": [parts], "tools": [shown]},
        "/v1/responses": {"model": "a", "input": "go", "tools": [{"type": "function", **shown}]},
        "/v1/chat/completions": {
            "model": "a",
            "messages": [{"role": "user", "content": "go"}],
            "tools": [{"type": "function", "function": shown}],
        },
    }


@pytest.mark.parametrize("path", bodies())
def test_every_wire_refuses_and_names_the_tool(path: str) -> None:
    async def scenario() -> None:
        ran: list[str] = []
        async with AgentRuntime([agent(ran)]) as runtime:
            app = runtime.asgi(server_config())
            headers = {**bearer("all"), "content-type": "application/json"}
            answer = await ask(app, "POST", path, body=bodies()[path], headers=headers)
            assert answer.status == 400, answer.body
            assert b"'act'" in answer.body
            assert (ran, await runtime.list_runs()) == ([], ())

    asyncio.run(scenario())


def test_python_and_the_queue_refuse_it_as_well() -> None:
    async def scenario() -> None:
        ran: list[str] = []
        async with AgentRuntime([agent(ran)]) as runtime:
            with pytest.raises(FrontendToolConflict, match="frontend_tools_may_replace"):
                await runtime.run("a", "go", frontend_tools=[MINE])
            with pytest.raises(FrontendToolConflict):
                await runtime.submit("a", "go", thread_id="t", frontend_tools=[MINE])
            assert ran == []

    asyncio.run(scenario())


def test_a_spec_may_allow_it() -> None:
    async def scenario() -> None:
        ran: list[str] = []
        async with AgentRuntime([agent(ran, frontend_tools_may_replace=True)]) as runtime:
            result = await runtime.run("a", "go", frontend_tools=[MINE])
            (ticket,) = result.tickets
            assert (ticket.tool_name, ticket.is_question, ran) == ("act", True, [])

    asyncio.run(scenario())


def test_what_the_agent_leaves_to_clients_stays_as_the_agent_describes_it() -> None:
    async def scenario() -> None:
        own = FrontEndTool(ToolDescriptor(id="act", description="The agent's.", parameters=FORM))
        async with AgentRuntime([agent([], tools=[own])]) as runtime:
            result = await runtime.run("a", "go", frontend_tools=[MINE])
            assert [it.tool_name for it in result.tickets] == ["act"]

    asyncio.run(scenario())
