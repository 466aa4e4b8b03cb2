"""Clients that take their configuration from a snippet: `snippet_clients.py MCP|ACP TEXT`."""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from acp import Client, spawn_agent_process, text_block
from mcp import Client as McpClient


class Reader(Client):  # type: ignore[misc]
    """Print what the agent says."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Print one update."""
        sys.stdout.write(str(update))


async def ask_mcp(config: dict[str, Any]) -> None:
    """Call the first tool that takes a message."""
    (server,) = config["mcpServers"].values()
    async with McpClient(server["url"]) as client:
        tools = (await client.list_tools()).tools
        sys.stdout.write(str(await client.call_tool(tools[0].name, {"message": "Hello"})))


async def ask_acp(config: dict[str, Any]) -> None:
    """Let the agent of the file call its tool."""
    (server,) = config["agent_servers"].values()
    # An editor finds the program on the PATH; here it is beside this Python.
    program = shutil.which(server["command"], path=str(Path(sys.executable).parent))
    assert program is not None
    arguments = [*server["args"], "--store", "memory://"]
    async with spawn_agent_process(Reader(), program, *arguments) as (agent, _):
        await agent.initialize(protocol_version=1)
        session = await agent.new_session(cwd=str(Path.cwd()), mcp_servers=[])
        text = text_block("RUN_WEATHER_TOOL")
        await agent.prompt(session_id=session.session_id, prompt=[text])


ask = {"MCP": ask_mcp, "ACP": ask_acp}[sys.argv[1]]
asyncio.run(ask(json.loads(sys.argv[2])))
