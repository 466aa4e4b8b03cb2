"""Two agents on one thread: the front desk hands the conversation over to billing.

The switch happens inside the run. The thread remembers who speaks, so the next run without a
named agent goes to billing as well.
"""

import asyncio

from awaken import Agent, AgentRuntime, tool
from awaken.extensions.handoff import HandoffPlugin
from awaken.testing import ScriptedModel, ToolCalls


@tool(effect="none")
async def list_invoices() -> list[str]:
    """List the customer's open invoices."""
    return ["A-17", "A-18"]


def front_desk() -> Agent:
    """Answers general questions; knows whom to ask about money."""
    model = ScriptedModel([ToolCalls([("transfer_to_agent", {"agent_id": "billing"})])])
    return Agent(
        "front_desk",
        model=model,
        instructions="Answer general questions. Hand questions about money over.",
        plugins=[HandoffPlugin({"billing": "invoices and payments"})],
    )


def billing() -> Agent:
    """Knows the invoices."""
    model = ScriptedModel(
        [
            ToolCalls([("list_invoices", {})]),
            "A-17 and A-18 are open.",
            "You can pay by card.",
        ]
    )
    return Agent("billing", model=model, tools=[list_invoices])


async def main() -> None:
    async with AgentRuntime([front_desk(), billing()]) as runtime:
        first = await runtime.run("front_desk", "Which invoices are open?", thread_id="t1")
        print(f"{first.agent_id}: {first.text}")

        second = await runtime.run(None, "How can I pay?", thread_id="t1")
        print(f"{second.agent_id}: {second.text}")

        record = await runtime.get_run(first.run_id)

    assert first.agent_id == "billing"
    assert first.text == "A-17 and A-18 are open."
    assert (record.agent_id, record.active_agent_id) == ("front_desk", "billing")
    assert second.agent_id == "billing"
    assert second.text == "You can pay by card."


if __name__ == "__main__":
    asyncio.run(main())
