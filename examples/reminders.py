"""Reminders: what the operator wants a model to mind after certain results.

The agent writes files. After a write into `config/` it is told once in a while that a restart is
needed; after a refused write it is told not to look for a way around. Both texts were written by
the operator and stand in the next request only.
"""

import asyncio

from awaken import Agent, AgentRuntime, ToolResult, tool
from awaken.extensions.reminder import ReminderPlugin
from awaken.testing import ScriptedModel, ToolCalls

RESTART = "Configuration takes effect after a restart: say so in your answer."
NO_WAY_ROUND = "The write was refused. Do not try other paths; ask the person."
RULES = [
    {
        "name": "restart",
        "tool": 'write(path ~ "config/*")',
        "output": {"status": "success"},
        "message": {"content": RESTART, "target": "system", "cooldown_turns": 5},
    },
    {
        "name": "refused",
        "tool": "write",
        "output": {"status": "error", "content": "*read-only*"},
        "message": {"content": NO_WAY_ROUND},
    },
]


@tool
async def write(path: str, text: str) -> ToolResult:
    """Write a file."""
    if path.startswith("/etc/"):
        return ToolResult.error("write", f"{path} is read-only")
    return ToolResult.success("write", f"{len(text)} characters written")


def writing(path: str) -> ToolCalls:
    """A turn in which the model writes a file."""
    return ToolCalls([("write", {"path": path, "text": "port: 80"})])


async def main() -> None:
    model = ScriptedModel(
        [writing("config/a.yaml"), writing("config/b.yaml"), writing("/etc/hosts"), "Restart it."]
    )
    agent = Agent(
        "writer",
        model=model,
        instructions="Do as you are told.",
        tools=[write],
        plugins=[ReminderPlugin()],
        config={"reminder": {"rules": RULES}},
    )
    async with AgentRuntime([agent]) as runtime:
        await runtime.run("writer", "Set the port.", thread_id="t1")
        kept = [record.message.text for record in await runtime.messages("t1")]

    told = [(request.system[1:], request.messages[-1].text) for request in model.requests]
    for number, (system, last) in enumerate(told, 1):
        print(f"request {number}: {', '.join(system) or 'no reminder'} | {last}")

    assert [system for system, _ in told] == [(), (RESTART,), (), ()], "once, then it cools down"
    assert told[3][1] == NO_WAY_ROUND
    assert RESTART not in kept, "reminders are no part of the transcript"
    assert NO_WAY_ROUND not in kept, "reminders are no part of the transcript"


if __name__ == "__main__":
    asyncio.run(main())
