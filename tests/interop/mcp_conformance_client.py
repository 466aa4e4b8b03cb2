"""The client that the MCP conformance suite judges: an agent whose model calls every tool it has.

Usage: python mcp_conformance_client.py URL. What the scenario wants called is in the environment;
questions are answered with what their forms propose.
"""

import asyncio
import json
import os
import sys
from typing import Any

from awaken import Agent, AgentRuntime, RunResult
from awaken.contracts.inference import InferenceRequest
from awaken.extensions.mcp import Http, McpPlugin, McpServer, Restart, ServerState
from awaken.testing import ScriptedModel, ToolCalls

PREFIX = "mcp__suite__"
MODERN = "2026-07-28"
NAMED = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}").get("toolCalls", [])


async def play(url: str) -> None:
    """One run with everything that the server offers."""
    plugin = McpPlugin([suite(url)])
    model = ScriptedModel([calls_of_all, "done"])
    async with asyncio.timeout(25), AgentRuntime([Agent("a", model=model, plugins=[plugin])]) as it:
        while plugin.status()[0].state in (ServerState.CONNECTING, ServerState.RECONNECTING):
            await asyncio.sleep(0.01)
        print(plugin.status()[0])
        if plugin.status()[0].state is not ServerState.CONNECTED:
            sys.exit(1)
        result = await it.run("a", "Call everything.")
        while result.is_waiting:
            result = await answered(it, result)
        for record in await it.messages(result.thread_id):
            print(record.message.role, record.message.text[:500])


def suite(url: str) -> McpServer:
    """The suite's server, in the era that the scenario is about."""
    wanted = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
    return McpServer(
        name="suite",
        transport=Http(url=url, allow_private=True),
        protocol="auto" if wanted in ("", MODERN) else "legacy",
        sampling=True,
        restart=Restart(max_attempts=0),
    )


def calls_of_all(request: InferenceRequest) -> ToolCalls | str:
    """A call of every tool, or those that the scenario names."""
    offered = {it.id.removeprefix(PREFIX): it.parameters for it in request.tools}
    if NAMED:
        calls = [(PREFIX + it["name"], it["arguments"]) for it in NAMED]
    else:
        calls = [(PREFIX + name, arguments(offered, name)) for name in offered]
    return ToolCalls(calls) if calls else "nothing to call"


def arguments(offered: dict[str, Any], name: str) -> dict[str, Any]:
    """What a tool needs; the tool that wants a schema gets that of another one."""
    if name == "json_schema_echo":
        others = [it for other, it in offered.items() if other != name]
        return {"schema": others[0]} if others else {}
    schema = offered[name]
    return {it: value_of(schema["properties"][it]) for it in schema.get("required", ())}


def value_of(schema: dict[str, Any]) -> Any:
    """Some value of a simple type."""
    if "enum" in schema:
        return schema["enum"][0]
    return {"number": 3, "integer": 3, "boolean": True, "array": [], "object": {}}.get(
        schema.get("type", ""), "text"
    )


async def answered(runtime: AgentRuntime, result: RunResult) -> RunResult:
    """The run, after every question was answered: yes to what is asked, the rest as proposed."""
    for ticket in result.tickets:
        properties = (ticket.suspension.response_schema or {}).get("properties", {})
        content = {name: True for name, it in properties.items() if "default" not in it}
        await runtime.decide(ticket.ticket_id, result=content)
    return await runtime.wait(result.run_id)


if __name__ == "__main__":
    asyncio.run(play(sys.argv[-1]))
