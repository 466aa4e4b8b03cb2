"""A support desk: reads a customer's mail, looks orders up, pays back, and files a ticket.

The context of a run says which customer wrote. Refunds above the limit of the customer's plan wait
for a person. The answer is a `Ticket`, and the desk may not report a refund that was not made.
"""

import os
from typing import Annotated, Literal

import msgspec
from orders import Order, Orders, RefundRefused, open_orders
from scripted_desk import scripted_desk

from awaken import Agent, AgentRuntime, Retry, RunContext, ToolContext, ToolError, tool

FREE_CENTS = {"basic": 2_000, "plus": 10_000}
"""What is paid back without a person, by plan."""


class Customer(msgspec.Struct, frozen=True):
    """Who wrote: the context of a run, which your backend passes with the mail."""

    id: str


class Ticket(msgspec.Struct, frozen=True):
    """What is filed about a mail, and the reply to it."""

    category: Literal["delivery", "refund", "question"]
    summary: str
    reply: str
    order_id: str | None = None
    refunded_cents: int = 0


Desk = ToolContext[Orders, Customer]


@tool(effect="none")
async def list_orders(ctx: Desk) -> list[Order]:
    """List the orders of the customer."""
    return await ctx.deps.list_of(ctx.context.id)


async def is_above_limit(order_id: str, cents: int, ctx: Desk) -> bool:
    """Whether a person approves the refund: by the plan that the shop knows, and the whole sum."""
    paid = await ctx.deps.refunded(order_id)
    return paid + cents > FREE_CENTS[await ctx.deps.plan_of(ctx.context.id)]


@tool(effect="idempotent", approval=is_above_limit)
async def refund(order_id: str, cents: Annotated[int, msgspec.Meta(gt=0)], ctx: Desk) -> str:
    """Pay back an order or a part of it.

    Args:
        order_id: The order.
        cents: How much.
        ctx: The call.
    """
    order = await ctx.deps.find(order_id, ctx.context.id)
    if order is None:
        raise ToolError(f"the customer has no order {order_id}")
    try:
        # The key is the same when the call runs again after a crash: the customer is paid once.
        await ctx.deps.refund(order, cents, key=ctx.idempotency_key)
    except RefundRefused as error:
        raise ToolError(str(error)) from error
    return f"paid back {cents} cents of {order_id}"


async def instruct(ctx: RunContext[Orders, Customer]) -> str:
    """The instructions for one mail."""
    plan = await ctx.deps.plan_of(ctx.context.id)
    limit = FREE_CENTS[plan]
    return (
        "You answer the mail of a shop's customers. Look orders up before you write about them. "
        f"This customer has the plan {plan!r}: a colleague approves refunds above "
        f"{limit} cents, so ask for the right sum at once. Close with a ticket."
    )


async def check_refund(ctx: RunContext[Orders, Customer], ticket: Ticket) -> None:
    """Send the model back if the ticket reports a refund that was not made."""
    paid = await ctx.deps.refunded(ticket.order_id) if ticket.order_id else 0
    if ticket.refunded_cents > paid:
        raise Retry(f"{paid} cents were paid back, not {ticket.refunded_cents}")


support = Agent(
    "support",
    model=os.environ.get("AGENT_MODEL") or scripted_desk(),
    description="Answers customers' mail, and pays back.",
    instructions=instruct,
    tools=[list_orders, refund],
    context_type=Customer,
    output_type=Ticket,
    output_validators=[check_refund],
)
runtime = AgentRuntime(
    [support], deps=open_orders, store=os.environ.get("AWAKEN_STORE", "memory://")
)
