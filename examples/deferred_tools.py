"""An agent with two hundred tools whose requests carry three of them.

The model searches for what it needs, uses it, and later talks about other things: what it loaded
and does not call leaves the requests again.
"""

import asyncio

from awaken import Agent, AgentRuntime, tool
from awaken.extensions.deferred_tools import DeferredToolsPlugin
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import Tool

SYSTEMS = ("crm", "erp", "mail", "wiki", "tickets")
OBJECTS = ("customer", "invoice", "order", "page", "person", "product", "project", "thread")
VERBS = ("create", "delete", "find", "list", "update")


def system_tool(system: str, verb: str, thing: str) -> Tool:
    """One of the many things that can be done in the company's systems."""

    @tool(
        id=f"{system}_{verb}_{thing}",
        description=f"Lets you {verb} a {thing} in the {system} system.",
        effect="none",
    )
    async def act(name: str, comment: str = "", as_of_year: int = 2026) -> str:
        return f"{system}: {verb} {thing} {name}: done"

    return act


@tool(effect="none")
async def note(text: str) -> str:
    """Write something down."""
    return "noted"


def talk() -> list[ToolCalls | str]:
    """What the model does: search, use one of what it found, and go on with something else."""
    return [
        ToolCalls([("ToolSearch", {"query": "+invoice find erp"})]),
        ToolCalls([("erp_find_invoice", {"name": "2026-117"})]),
        "The invoice is there.",
        *(ToolCalls([("note", {"text": f"thought {number}"})]) for number in range(6)),
        "All written down.",
    ]


async def main() -> None:
    model = ScriptedModel(talk())
    tools = [
        system_tool(*it) for it in ((s, v, o) for s in SYSTEMS for v in VERBS for o in OBJECTS)
    ]
    agent = Agent(
        "clerk",
        model=model,
        instructions="You are a clerk with access to all systems.",
        tools=[note, *tools],
        plugins=[DeferredToolsPlugin()],
        config={
            "deferred_tools": {
                "rules": [{"tool": "note", "mode": "eager"}],
                # Searching is cheap here, so that tools leave soon.
                "disc_beta": {"gamma": 500},
            }
        },
    )
    async with AgentRuntime([agent]) as runtime:
        await runtime.run("clerk", "Do we have invoice 2026-117?", thread_id="desk")
        await runtime.run("clerk", "Think about it.", thread_id="desk")

    for number, request in enumerate(model.requests, start=1):
        print(number, ", ".join(it.id for it in request.tools))

    first, found, last = model.requests[0], model.requests[1], model.requests[-1]
    assert [it.id for it in first.tools] == ["ToolSearch", "note"]
    assert len(found.tools) == 2 + 5
    assert [it.id for it in last.tools] == ["ToolSearch", "note", "erp_find_invoice"]
    assert len({it.system for it in model.requests}) == 1


if __name__ == "__main__":
    asyncio.run(main())
