"""Typed state: five calls side by side, none of them lost.

`COUNT` says how two updates combine, so parallel calls merge. `BALANCE` does not: calls that read
and write it side by side would overwrite each other, so all but the first are run again.
"""

import asyncio

from awaken import Agent, AgentRuntime, StateKey, ToolContext, tool
from awaken.plugins import StateScope
from awaken.testing import ScriptedModel, ToolCalls

COUNT: StateKey[int, int] = StateKey(
    "example.count",
    default=0,
    apply=lambda count, more: count + more,
    merge="commutative",
    scope=StateScope.THREAD,
)
BALANCE: StateKey[int, int] = StateKey("example.balance", default=100, scope=StateScope.THREAD)


@tool(effect="none")
async def increment(ctx: ToolContext) -> str:
    """Add one to the count."""
    await asyncio.sleep(0.01)  # All five calls are here at the same time.
    ctx.state.update(COUNT, 1)
    return "added"


@tool(effect="idempotent")
async def withdraw(amount: int, ctx: ToolContext) -> str:
    """Take money from the balance, if there is enough of it."""
    balance = ctx.state.get(BALANCE)
    await asyncio.sleep(0.01)
    if amount > balance:
        return "refused"
    ctx.state.set(BALANCE, balance - amount)
    return f"{balance - amount} left"


@tool(effect="none")
async def show(ctx: ToolContext) -> dict[str, int]:
    """Show the count and the balance."""
    return {"count": ctx.state.get(COUNT), "balance": ctx.state.get(BALANCE)}


async def main() -> None:
    model = ScriptedModel(
        [
            ToolCalls([("increment", {})] * 5),
            ToolCalls([("withdraw", {"amount": 40})] * 3),
            ToolCalls([("show", {})]),
            "Done.",
        ]
    )
    agent = Agent("clerk", model=model, tools=[increment, withdraw, show])

    async with AgentRuntime([agent]) as runtime:
        result = await runtime.run("clerk", "Count and pay.", thread_id="t1")
        messages = [record.message for record in await runtime.messages("t1")]

    answers = [message.text for message in messages if message.role == "tool"]
    print("\n".join(answers))

    assert result.text == "Done."
    assert answers[:5] == ["added"] * 5
    assert answers[5:8] == ["60 left", "20 left", "refused"]
    assert answers[8] == '{"count":5,"balance":20}'


if __name__ == "__main__":
    asyncio.run(main())
