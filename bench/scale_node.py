"""A node of `scale.py` in a process of its own: a worker that says when it is ready.

python bench/scale_node.py SCHEMA URL CARRIER SLOTS
"""

from __future__ import annotations

import asyncio
import sys

from awaken import Agent, AgentRuntime, tool
from awaken.buses.memory import MemoryBus
from awaken.buses.postgres import PostgresBus
from awaken.mailbox.config import MailboxConfig
from awaken.stores import PostgresStore
from awaken.testing import Chunks, ScriptedModel, ToolCalls

MODEL_S = 1.0
LONG_TOOL_S = 1.0
LONG_STEPS = 90


@tool(effect="idempotent")
async def work(seconds: float) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return "worked"


def make_agents() -> list[Agent]:
    """One with a model that takes a second, and one whose run has a step each second."""
    slow = Chunks(["an", "swer"], delay_ms=int(MODEL_S * 1000))
    steps = [ToolCalls([("work", {"seconds": LONG_TOOL_S})])] * LONG_STEPS
    return [
        Agent("slow", model=ScriptedModel([slow], cycle=True)),
        Agent("long", model=ScriptedModel([*steps, "done"], cycle=True), tools=[work]),
    ]


async def main(schema: str, url: str, carrier: str, slots: int) -> None:
    """Work until the process is ended."""
    bus = {"postgres": lambda: PostgresBus(url, channel=schema), "none": MemoryBus}.get(carrier)
    async with AgentRuntime(
        make_agents(),
        store=PostgresStore(url, schema=schema),
        bus=carrier if bus is None else bus(),  # type: ignore[arg-type]
        mailbox=MailboxConfig(concurrency=slots),
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
