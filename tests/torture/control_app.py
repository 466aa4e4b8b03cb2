"""The agent of the control stages: it pays with permission, naps, asks, and writes to others.

A model answers by what it is shown and keeps nothing, so any process can go on with any run. What
a tool did stands in a ledger that outlives the process, in the file that `CONTROL_LEDGER` names.
"""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.torture.history import Ledger

from awaken import Agent, ToolContext, tool
from awaken.contracts.messages.message import Role
from awaken.contracts.models.inference import InferenceRequest
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.extensions.permission import PermissionPlugin
from awaken.testing import Chunks, ScriptedModel, ToolCalls

AGENT = "clerk"
LEDGER = "CONTROL_LEDGER"
ORDER = "do "
"""How a message begins that names the calls to make; any other is only acknowledged."""
TELL = "tell "
"""How a message begins that is answered with words, one after the other."""
WORDS, WORD_MS = 40, 8


Note = Callable[[ToolContext, str], object]


def order(number: int, *calls: tuple[str, dict[str, Any]]) -> str:
    """A message that makes the agent call tools; the number makes it unlike any other."""
    named = [[name, given, f"{number}-{name}"] for name, given in calls]
    return f"{ORDER}{json.dumps(named)}"


def write_note(ctx: ToolContext, at: str) -> None:
    """Write into the ledger that a call begins or ends."""
    name = f"{ctx.tool_name} {ctx.call_id}"
    Ledger(Path(os.environ[LEDGER])).note(ctx.run.run_id, name, int(ctx.resume is not None), at)


def answer(request: InferenceRequest) -> Any:
    """Call what the last message orders; after results, and for any other message, say so."""
    last = request.messages[-1]
    if last.role is Role.USER and last.text.startswith(ORDER):
        return ToolCalls([tuple(it) for it in json.loads(last.text[len(ORDER) :])])
    if last.role is Role.USER and last.text.startswith(TELL):
        return Chunks([f"{last.text} {number} " for number in range(WORDS)], delay_ms=WORD_MS)
    return f"noted after {last.role}"


def build_tools(note: Note) -> list[Any]:
    """Tools that tell `note` when they begin and end what must happen once."""

    @tool(effect="once")
    async def pay(ctx: ToolContext) -> str:
        """Pay; permission is asked for first."""
        note(ctx, "start")
        await asyncio.sleep(0.005)
        note(ctx, "end")
        return "paid"

    @tool(effect="idempotent")
    async def nap(ms: int) -> str:
        """Take a while."""
        await asyncio.sleep(ms / 1000)
        return "rested"

    @tool(effect="once")
    async def ask(ctx: ToolContext) -> Any:
        """Ask a person."""
        if ctx.resume is None:
            return ctx.suspend("May I?")
        note(ctx, "start")
        return f"heard {ctx.resume.result}"

    return [pay, nap, ask]


def build_agent(note: Note = write_note, **options: Any) -> Agent:
    """The agent, for one process."""
    return Agent(
        AGENT, model=ScriptedModel([answer], cycle=True), tools=build_tools(note), **options
    )


def build_asking_agent() -> Agent:
    """The agent with permission rules, and with tools to write to other agents."""
    rules = [{"tool": "pay", "behavior": "ask"}]
    return build_agent(
        plugins=[PermissionPlugin(), BackgroundTasksPlugin()],
        config={"permission": {"default_behavior": "allow", "rules": rules}},
    )
