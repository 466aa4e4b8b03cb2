"""What works without a caller: workflows that wait, and an agent for schedules and triggers."""

import os

from msgspec import Struct

from awaken import Agent, WorkflowContext, tool, workflow
from awaken.testing import ScriptedModel

HOSTILE = "<img src=x onerror='window.hacked = 1'>\u202efdp.exe\u200b"


class Payment(Struct):
    """What a customer paid."""

    order: str
    amount: int


@tool(effect="once")
async def pay_back(order: str) -> str:
    """Pay an order back."""
    return f"payment of {order} {HOSTILE}"


@workflow(tools=[pay_back])
async def refund(ctx: WorkflowContext, order: str) -> str:
    """Pay back, then wait for a payment, three days or a person."""
    ctx.set_status(f"waits for {order} {HOSTILE}")
    await ctx.call(pay_back, order)
    await ctx.race(ctx.wait_for("payment", Payment), rest(ctx, order), ctx.approve("Give up?"))
    return "done"


async def rest(ctx: WorkflowContext, order: str) -> None:
    """Pay once more, and sleep."""
    await ctx.call(pay_back, f"{order} again")
    await ctx.sleep(days=3)


@workflow(tools=[pay_back])
async def steady(ctx: WorkflowContext, order: str) -> str:
    """Take another step first when the code has changed."""
    if os.environ.get("AWAKEN_TEST_CHANGED"):
        await ctx.sleep(0.01)
    await ctx.call(pay_back, order)
    await ctx.wait_for("goods")
    return "done"


@workflow
async def many(ctx: WorkflowContext, order: str) -> int:
    """Take very many steps."""
    for number in range(600):
        ctx.set_status(number)
    await ctx.wait_for("stop")
    return 600


reporter = Agent("reporter", model=ScriptedModel(["All is well."], cycle=True))
