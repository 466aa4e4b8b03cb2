"""An agent that does what the user's last word says: look, erase, hang, or echo over MCP."""

import asyncio
from typing import Any

from awaken import Agent, ToolContext, tool
from awaken.messages import Role
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, ToolCalls, Turn


@tool(effect="none")
async def read_file(path: str) -> str:
    """Read."""
    return f"text of {path}"


@tool
async def erase(name: str, ctx: ToolContext) -> Any:
    """Erase something, once somebody approves."""
    return ctx.suspend(f"erase {name}?") if ctx.resume is None else f"erased {name}"


@tool(effect="none")
async def hang(ctx: ToolContext) -> str:
    """Never end."""
    ctx.report_activity("plan", ["wait"])
    await asyncio.Event().wait()
    return "never"


def answer(request: InferenceRequest) -> Any:
    last = request.messages[-1]
    if last.role is Role.TOOL:
        return Turn(text=f"Done: {last.text}", reasoning="hm")
    calls: dict[str, tuple[str, Any]] = {
        "look": ("read_file", {"path": "/x.py"}),
        "erase": ("erase", {"name": "x"}),
        "hang": ("hang", {}),
        "echo": ("mcp__everything__echo", {"message": "hello"}),
    }
    return ToolCalls([calls[last.text]])


agent = Agent("a", model=ScriptedModel([answer], cycle=True), tools=[read_file, erase, hang])
