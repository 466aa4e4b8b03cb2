"""A refund that a person approves, and that waits three days for the goods to come back."""

from msgspec import Struct

from awaken import AgentRuntime, WorkflowContext, tool, workflow

LARGE = 100


class Order(Struct):
    """An order that a customer wants to give back."""

    id: str
    amount: int


class Receipt(Struct):
    """What became of the refund."""

    order: str
    paid: int
    note: str


@tool(effect="idempotent")
async def send_label(order_id: str) -> str:
    """Send the customer a label for the parcel."""
    return f"label-{order_id}"


@tool(effect="once")
async def pay_back(order_id: str, amount: int) -> str:
    """Pay an amount back."""
    return f"payment-{order_id}"


@workflow(tools=[send_label, pay_back], events={"parcel": dict})
async def refund(ctx: WorkflowContext, order: Order) -> Receipt:
    """Refund an order: label, parcel, approval, payment."""
    ctx.set_status("waits for the parcel")
    await ctx.call(send_label, order.id)
    winner, _ = await ctx.race(ctx.wait_for("parcel"), ctx.sleep(days=3))
    if winner == 1:
        return Receipt(order=order.id, paid=0, note="the parcel did not come")
    if order.amount > LARGE and not await ctx.approve(f"Refund {order.amount}?"):
        return Receipt(order=order.id, paid=0, note="declined")
    ctx.set_status("pays")
    payment = await ctx.call(pay_back, order.id, order.amount)
    return Receipt(order=order.id, paid=order.amount, note=payment)


runtime = AgentRuntime([refund])
