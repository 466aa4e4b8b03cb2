"""The demo: agents that work without any key, to look at before writing one's own."""

from awaken.authoring.agents import Agent
from awaken.authoring.functions import tool
from awaken.contracts.state import StateKey, StateScope
from awaken.contracts.suspension import ResumeMode, SuspendTicket
from awaken.contracts.tool_context import ToolContext
from awaken.contracts.tools import ToolError

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
async def failing_tool() -> str:
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
async def progress_demo(ctx: ToolContext) -> str:
    """Report progress in three steps."""
    for done in (1, 2, 3):
        ctx.progress("running", f"step {done} of 3", done / 3)
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


TOOLS = (
    get_weather,
    get_stock_price,
    append_note,
    server_info,
    failing_tool,
    finish,
    progress_demo,
    ask_user_question,
)


def demo_agents() -> list[Agent]:
    """Agents on the scripted model: a general one, and one that may think only once."""
    prompt = "You are a helpful assistant."
    return [
        Agent("default", model="scripted", instructions=prompt, tools=TOOLS),
        Agent("limited", model="scripted", instructions=prompt, tools=TOOLS, max_rounds=1),
    ]
