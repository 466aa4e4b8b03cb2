"""Rules for tool calls: one passes, one is refused, and one is asked about and then always allowed.

The second run, on another thread, needs no approval any more: the answer was for the project.
"""

import asyncio

from awaken import Agent, AgentRuntime, tool
from awaken.extensions.permission import PermissionPlugin
from awaken.testing import ScriptedModel, ToolCalls

DEPLOYED: list[str] = []
RULES = [
    {"tool": "read_log", "behavior": "allow"},
    {"tool": "deploy", "behavior": "ask", "scope": "project"},
    {"tool": 'deploy(target = "production")', "behavior": "deny"},
]


@tool(effect="none")
async def read_log() -> str:
    """Read the log."""
    return "All tests pass."


@tool
async def deploy(target: str) -> str:
    """Deploy to a target."""
    DEPLOYED.append(target)
    return f"deployed to {target}"


def operator() -> Agent:
    """Deploys, if it may."""
    model = ScriptedModel(
        [
            ToolCalls([("read_log", {}), ("deploy", {"target": "production"})]),
            ToolCalls([("deploy", {"target": "staging"})]),
            "It is on staging.",
            ToolCalls([("deploy", {"target": "preview"})]),
            "And there is a preview.",
        ]
    )
    return Agent(
        "operator",
        model=model,
        tools=[read_log, deploy],
        plugins=[PermissionPlugin()],
        config={"permission": {"rules": RULES}},
    )


async def main() -> None:
    async with AgentRuntime([operator()]) as runtime:
        waiting = await runtime.run("operator", "Ship it.", thread_id="t1")
        for record in await runtime.messages("t1"):
            if record.message.tool_call_id is not None:
                print(record.message.text)
        (ticket,) = waiting.tickets
        print(f"{ticket.suspension.message}: {ticket.arguments}")
        await runtime.decide(ticket.ticket_id, remember={"scope": "project"}, decided_by="ann")
        first = await runtime.wait(waiting.run_id)
        print(first.text)

        second = await runtime.run("operator", "A preview, please.", thread_id="t2")
        print(second.text)

    assert ticket.arguments == {"target": "staging"}
    assert first.text == "It is on staging."
    assert second.text == "And there is a preview."
    assert DEPLOYED == ["staging", "preview"]


if __name__ == "__main__":
    asyncio.run(main())
