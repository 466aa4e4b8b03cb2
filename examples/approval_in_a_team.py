"""An approval in the middle of a team: the assistant asks the treasurer, who has to ask a person.

The question belongs to the treasurer's run. While somebody thinks about it neither run holds
anything; once it is answered, the treasurer goes on, and then the assistant, by themselves.
"""

import asyncio

from awaken import Agent, AgentRuntime, SuspendTicket, ToolContext, tool
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import Asks

paid: list[str] = []


@tool
async def pay(invoice: str, ctx: ToolContext) -> str | SuspendTicket:
    """Pay an invoice; a person has to agree."""
    if ctx.resume is None:
        shown = {"invoice": invoice}
        return ctx.suspend(f"Pay {invoice}?", parameters=shown, asks=Asks.PERMISSION)
    paid.append(invoice)
    return f"paid {invoice}"


def team() -> list[Agent]:
    """The assistant may ask the treasurer, and only the treasurer can pay."""
    treasurer = Agent(
        "treasurer",
        model=ScriptedModel([ToolCalls([("pay", {"invoice": "A-17"})]), "A-17 is paid."]),
        description="Pays invoices.",
        tools=[pay],
    )
    assistant = Agent(
        "assistant",
        model=ScriptedModel(
            [
                ToolCalls([("agent_run_treasurer", {"prompt": "Please pay A-17."})]),
                "The treasurer has paid it.",
            ]
        ),
        delegates=["treasurer"],
    )
    return [assistant, treasurer]


async def main() -> None:
    async with AgentRuntime(team()) as runtime:
        waiting = await runtime.run("assistant", "Is A-17 paid?", thread_id="office")
        assert waiting.is_waiting
        assert paid == []

        (question,) = [it for it in await runtime.tickets() if it.tool_name == "pay"]
        print(f"{question.suspension.message} (asked by run {question.run_id})")
        await runtime.decide(question.ticket_id, decided_by="Eve")

        done = await runtime.wait(waiting.run_id, timeout_ms=10_000)
        print(done.text)
        treasurer = await runtime.get_run(question.run_id)

    assert done.run_id == waiting.run_id
    assert done.text == "The treasurer has paid it."
    assert paid == ["A-17"]
    assert treasurer.parent_run_id == done.run_id
    assert treasurer.final_output == "A-17 is paid."


if __name__ == "__main__":
    asyncio.run(main())
