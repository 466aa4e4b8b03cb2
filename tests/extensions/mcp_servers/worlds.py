"""Agents with MCP servers, played through to what their tools gave back."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from awaken import Agent, AgentEvent, AgentRuntime, RedactedString, ToolCallDone, ToolResult
from awaken.extensions.mcp import (
    InProcess,
    McpLimits,
    McpPlugin,
    McpServer,
    Restart,
    ServerStatus,
    Stdio,
)
from awaken.testing import ScriptedModel, ToolCalls

from .desk import Desk

ROOT = Path(__file__).parents[3]
BOUND_S = 15
FAST = Restart(base_ms=1, cap_ms=4)
SOON = McpLimits(coalesce_ms=1)


def local(desk: Desk, name: str = "desk", **more: Any) -> McpServer:
    """A server in this process, of the newer era unless told otherwise."""
    fields = {"restart": FAST, "limits": SOON, **more}
    return McpServer(name=name, transport=InProcess(server=desk.server), **fields)


def program(folder: Path, name: str = "desk", **more: Any) -> McpServer:
    """The same server as a program of its own."""
    command = ("-m", "tests.extensions.mcp_servers.desk", str(folder))
    path = {"PYTHONPATH": RedactedString(str(ROOT / "src"))}
    stdio = Stdio(command=sys.executable, args=command, cwd=str(ROOT), env=path)
    return McpServer(name=name, transport=stdio, restart=more.pop("restart", FAST), **more)


@asynccontextmanager
async def playing(
    plugin: McpPlugin, *turns: Any, **more: Any
) -> AsyncIterator[tuple[AgentRuntime, ScriptedModel]]:
    """A runtime with one agent `a` that has the plugin, within the time of a test."""
    store = more.pop("store", None)
    model = ScriptedModel([*turns])
    agent = Agent("a", model=model, plugins=[plugin], **more)
    async with asyncio.timeout(BOUND_S):
        async with AgentRuntime([agent], store=store) as runtime:
            yield runtime, model


async def results(runtime: AgentRuntime) -> list[ToolResult]:
    """What the tools give back when a run calls them all."""
    return [it.result for it in await events(runtime) if isinstance(it, ToolCallDone)]


async def events(runtime: AgentRuntime) -> list[AgentEvent]:
    return [event async for event in runtime.stream("a", "go")]


def calls(*names: str, **arguments: Any) -> ToolCalls:
    return ToolCalls([(name, arguments) for name in names])


def status(plugin: McpPlugin, name: str = "desk") -> ServerStatus:
    return next(it for it in plugin.status() if it.name == name)


async def until(condition: Any) -> None:
    """Return when something is so; the caller bounds it."""
    while not condition():
        await asyncio.sleep(0.005)
