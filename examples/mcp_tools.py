"""An agent with the tools of an MCP server, which asks its user something during a call.

The server runs in this process, so that the example needs nothing else; with `Stdio` or `Http` in
the place of `InProcess` it is any other one. Needs the extra `mcp`.
"""

import asyncio
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server

from awaken import Agent, AgentRuntime
from awaken.extensions.mcp import InProcess, McpPlugin, McpServer
from awaken.testing import ScriptedModel, ToolCalls

FORM = {"type": "object", "properties": {"seats": {"type": "integer"}}, "required": ["seats"]}


async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
    """What the server offers."""
    play = {"type": "object", "properties": {"play": {"type": "string"}}, "required": ["play"]}
    book = types.Tool(name="book", description="Book seats for a play", input_schema=play)
    return types.ListToolsResult(tools=[book])


async def call_tool(_context: Any, params: Any) -> types.CallToolResult | types.InputRequiredResult:
    """Book seats; how many of them is asked first."""
    answer = (params.input_responses or {}).get("seats")
    if answer is None:
        asked = types.ElicitRequestFormParams(message="How many seats?", requested_schema=FORM)
        question = types.ElicitRequest(params=asked)
        return types.InputRequiredResult(input_requests={"seats": question})
    text = f"{answer.content['seats']} seats for {params.arguments['play']}"
    return types.CallToolResult(content=[types.TextContent(text=text)])


async def main() -> str:
    """Ask for a booking, answer the server's question, and return what the agent says."""
    theatre = Server("theatre", on_list_tools=list_tools, on_call_tool=call_tool)
    plugin = McpPlugin([McpServer(name="theatre", transport=InProcess(server=theatre))])
    booking = ToolCalls([("mcp__theatre__book", {"play": "Faust"})])
    model = ScriptedModel([booking, "You have two seats."])
    async with AgentRuntime([Agent("clerk", model=model, plugins=[plugin])]) as runtime:
        (server,) = plugin.status()
        print(f"{server.name} is {server.state}; its tools: {[it.name for it in server.tools]}")
        waiting = await runtime.run("clerk", "Book seats for Faust.", thread_id="t")
        (ticket,) = await runtime.tickets("t")
        print(ticket.suspension.message)
        await runtime.decide(ticket.ticket_id, result={"seats": 2})
        ended = await runtime.wait(waiting.run_id)
        return ended.text


if __name__ == "__main__":
    print(asyncio.run(main()))
