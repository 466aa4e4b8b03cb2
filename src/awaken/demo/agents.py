"""The demo: example agents that work without an API key.

With the scripted model, `RUN_WEATHER_TOOL` in a message calls that tool; the others likewise.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from awaken import (
    Agent,
    ContextWindowPolicy,
    StateKey,
    StopOnTool,
    SuspendTicket,
    TokenBudget,
    ToolContext,
    ToolError,
    tool,
)
from awaken.models import Effort
from awaken.plugins import StateScope
from awaken.tools import FrontEndTool, ResumeMode, ToolDescriptor

from .extensions import extension_agents, mcp_plugins, remote_agents
from .settings import demo_settings

Steps = Annotated[int, Meta(ge=1, le=1_000)]
PauseMs = Annotated[int, Meta(ge=0, le=10_000)]

NOTES: StateKey[tuple[str, ...], str] = StateKey(
    "demo.notes",
    default=(),
    type=tuple[str, ...],
    apply=lambda notes, note: (*notes, note),
    scope=StateScope.THREAD,
)


@tool(effect="none")
async def get_weather(location: str) -> dict[str, object]:
    """Current weather in a place.

    Args:
        location: The place's name.
    """
    return {"location": location, "temperature": 21, "condition": "sunny"}


@tool(effect="none")
async def get_stock_price(symbol: str) -> dict[str, object]:
    """Latest price of a share.

    Args:
        symbol: The ticker symbol.
    """
    return {"symbol": symbol, "price": 187.5, "currency": "USD"}


@tool(effect="idempotent")
async def append_note(note: str, ctx: ToolContext) -> str:
    """Keep a note for later in this conversation.

    Args:
        note: The text of the note.
    """
    ctx.state.update(NOTES, note)
    return f"noted ({len(ctx.state.get(NOTES))} in all)"


@tool(id="serverInfo", effect="none")
async def server_info() -> dict[str, str]:
    """Tell which server this is."""
    return {"name": "awaken", "mode": "demo"}


@tool(id="failingTool", effect="none")
async def fail_always() -> str:
    """Fail, always; to see what a failure looks like."""
    message = "this tool always fails"
    raise ToolError(message)


@tool(effect="none")
async def finish(summary: str) -> str:
    """End the task.

    Args:
        summary: What was done.
    """
    return summary


@tool(effect="none")
async def progress_demo(ctx: ToolContext, steps: Steps = 3, pause_ms: PauseMs = 0) -> str:
    """Report progress, step by step.

    Args:
        steps: How many steps it takes.
        pause_ms: How long each step takes, in milliseconds.
    """
    for done in range(1, steps + 1):
        await asyncio.sleep(pause_ms / 1000)
        ctx.progress("running", f"step {done} of {steps}", done / steps)
    return "done"


@tool(id="askUserQuestion", effect="none")
async def ask_user_question(question: str, ctx: ToolContext) -> SuspendTicket:
    """Ask the person a question and wait for the answer.

    Args:
        question: What to ask.
    """
    return ctx.suspend(
        question, parameters={"question": question}, mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT
    )


@tool(effect="idempotent")
async def delete_file(path: str) -> str:
    """Delete a file. It only says so: the demo has no files.

    Args:
        path: The file's path.
    """
    return f"deleted {path}"


set_background_color = FrontEndTool(
    ToolDescriptor(
        id="set_background_color",
        description="Set the background colour of the page that the person looks at.",
        parameters={
            "type": "object",
            "properties": {"color": {"type": "string", "description": "A CSS colour."}},
            "required": ["color"],
        },
    )
)

TOOLS = (
    get_weather,
    get_stock_price,
    append_note,
    server_info,
    fail_always,
    finish,
    progress_demo,
    ask_user_question,
    set_background_color,
)


def demo_agents(environment: Mapping[str, str] = os.environ) -> list[Agent]:
    """The demo's agents, the general one first, configured by the environment.

    Raises:
        InvalidInput: A variable is malformed; names it.
    """
    settings = demo_settings(environment)
    first = Agent(
        settings.agent_id,
        model=settings.model,
        instructions=settings.prompt,
        tools=TOOLS,
        max_rounds=settings.max_rounds,
        reasoning_effort=settings.effort,
        description="Has every tool of the demo.",
        plugins=mcp_plugins(settings.mcp_command),
    )
    if settings.is_minimal:
        return [first]
    usual: Any = {"model": settings.model, "instructions": settings.prompt, "tools": TOOLS}
    by_id = {it.descriptor.id: it for it in (*TOOLS, delete_file)}
    others = {**extension_agents(by_id), **_OTHERS, **remote_agents(settings)}
    return [first, *(_build_agent(it, usual, own) for it, own in others.items() if it != first.id)]


def _build_agent(name: str, usual: Mapping[str, Any], own: Mapping[str, Any]) -> Agent:
    # A remote agent has its model and its tools at its endpoint.
    return Agent(name, **(own if "endpoint" in own else {**usual, **own}))


_OTHERS: Mapping[str, Mapping[str, Any]] = {
    "travel": {
        "description": "Plans journeys.",
        "instructions": "You plan journeys. Look the weather up before you recommend a place.",
        "tools": [get_weather, append_note, ask_user_question],
    },
    "research": {
        "description": "Researches shares.",
        "instructions": "You research companies and shares, and keep notes of what you find.",
        "tools": [get_stock_price, append_note],
    },
    "limited": {"description": "May think only once.", "max_rounds": 1},
    "stopper": {
        "description": "Stops when it calls finish; try RUN_FINISH_TOOL.",
        "instructions": "Do what is asked, then call finish.",
        "stop": [StopOnTool(tool_name="finish")],
    },
    "thinking": {"description": "Thinks before it answers.", "reasoning_effort": Effort.HIGH},
    "creative": {
        "description": "Writes, without tools.",
        "instructions": "You are a writer. Answer with vivid images and unusual words.",
        "tools": [],
    },
    "compact": {
        "description": "Sums its history up early.",
        "context_policy": ContextWindowPolicy(autocompact_threshold=800, min_recent_messages=2),
    },
    "budget": {"description": "May use 60 tokens.", "stop": [TokenBudget(max_total=60)]},
}
"""The options of the other agents, by agent id."""
