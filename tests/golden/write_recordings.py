"""Writes the golden recordings: `python -m tests.golden.write_recordings`; only for a new version.

Recordings of each released version stay, and must replay with today's code.
"""

import asyncio
from pathlib import Path
from typing import Any

from awaken import Agent, AgentRuntime, StateKey, ToolContext, __version__, tool
from awaken.bootstrap.replays import build_recorder
from awaken.evals.recording_files import encode_recording
from awaken.plugins import StateScope
from awaken.testing import ScriptedModel, ToolCalls, Turn

FOLDER = Path(__file__).parent / "recordings"
STOCK: StateKey[dict[str, int], dict[str, int]] = StateKey(
    "golden_stock",
    default={},
    apply=lambda had, new: {**had, **new},
    update_type=dict[str, int],
    scope=StateScope.THREAD,
)


@tool(effect="none")
async def look_up(what: str) -> dict[str, Any]:
    """Look something up."""
    return {"what": what, "price": len(what)}


@tool(effect="idempotent")
async def reserve(what: str, count: int, ctx: ToolContext) -> str:
    """Reserve some."""
    ctx.state.update(STOCK, {what: count})
    return f"reserved {count} {what}"


@tool(approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def make_agent(script: list[Any]) -> Agent:
    return Agent(
        "golden",
        model=ScriptedModel(script),
        instructions="You buy things.",
        tools=[look_up, reserve, pay],
    )


PARALLEL = [
    Turn(
        reasoning="Both at once.",
        calls=[("look_up", {"what": "tea"}), ("look_up", {"what": "tea"})],
    ),
    ToolCalls([("reserve", {"what": "tea", "count": 2}), ("reserve", {"what": "cup", "count": 1})]),
    "Tea and a cup are reserved.",
]
APPROVED = [ToolCalls([("pay", {"amount": 5})]), "It is paid."]


async def write(name: str, script: list[Any]) -> None:
    async with AgentRuntime([make_agent(script)], history="full") as runtime:
        result = await runtime.run("golden", "Buy tea.", run_id_hint=name, thread_id=f"of-{name}")
        for ticket in result.tickets:
            await runtime.decide(ticket.ticket_id, "resume", result=True)
        while (await runtime.get_run(name)).status != "done":
            await asyncio.sleep(0.01)
        recording = await build_recorder(runtime.view("golden").engine).record(name)
    (FOLDER / f"{__version__}-{name}.json").write_bytes(encode_recording(recording) + b"\n")


if __name__ == "__main__":
    asyncio.run(write("parallel", PARALLEL))
    asyncio.run(write("approved", APPROVED))
