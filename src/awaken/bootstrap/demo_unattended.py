"""What works without a caller in the demo data: a workflow, schedules and a trigger."""

import msgspec

from awaken.authoring.workflows import Workflow, workflow
from awaken.contracts.runs.threads import DEMO_PREFIX
from awaken.contracts.storage.schedules import (
    CronTiming,
    EventFilter,
    OneShotTiming,
    RunTarget,
    ScheduleSpec,
    ScheduleStatus,
    SignatureScheme,
    TriggerSpec,
)
from awaken.contracts.tools.tool import Tool
from awaken.contracts.workflows.context import WorkflowContext
from awaken.services.demo_schedules import (
    DemoDelivery,
    DemoFiring,
    DemoSchedule,
    DemoStarters,
    DemoTrigger,
)

ASSISTANT, RETURN = "demo-assistant", "demo-return"
_HOUR_MS = 60 * 60 * 1000
_DAY_MS = 24 * _HOUR_MS
_PARCEL_ABOVE = 40


class Parcel(msgspec.Struct):
    """A parcel that came back."""

    order: str
    is_damaged: bool = False


def build_return(find_order: Tool) -> Workflow[str]:
    """Build the workflow of the demo data; it waits without a deadline, so that nothing is due."""

    @workflow(id=RETURN, tools=[find_order])
    async def return_order(ctx: WorkflowContext, order: str) -> str:
        """Take an order back: a cheap one at once, any other when its parcel is here."""
        ctx.set_status(f"looks for order {order}")
        found, _ = await ctx.gather(ctx.call(find_order, order), ctx.call(find_order, "A-1043"))
        if found["price"] < _PARCEL_ABOVE:
            return f"Order {order} is refunded; the customer keeps it."
        ctx.set_status(f"waits for the parcel of order {order}")
        await ctx.race(
            ctx.wait_for("parcel", Parcel), ctx.approve(f"Refund order {order} without its parcel?")
        )
        return f"Order {order} is refunded."

    return return_order


def make_starters(now_ms: int) -> DemoStarters:
    """Make schedules and a trigger that start nothing; their history ends before a time."""
    morning = now_ms // _DAY_MS * _DAY_MS + 8 * _HOUR_MS
    last = morning if morning < now_ms else morning - _DAY_MS
    daily = DemoSchedule(
        schedule_id=DEMO_PREFIX + "orders",
        spec=ScheduleSpec(
            timing=CronTiming(expression="0 8 * * *"),
            target=RunTarget(agent_id=ASSISTANT, input="Check all orders of this week."),
            description="Checks the orders every morning",
        ),
        status=ScheduleStatus.PAUSED,
        firings=(
            DemoFiring(due_at=last - 2 * _DAY_MS, thread_id=DEMO_PREFIX + "order"),
            DemoFiring(due_at=last - _DAY_MS),
            DemoFiring(due_at=last, thread_id=DEMO_PREFIX + "long"),
        ),
    )
    once = DemoSchedule(
        schedule_id=DEMO_PREFIX + "reminder",
        spec=ScheduleSpec(
            timing=OneShotTiming(at=last - 3 * _DAY_MS),
            target=RunTarget(agent_id=ASSISTANT, input="What does the weather do to my order?"),
            description="Asked once, and failed",
            max_count=1,
        ),
        status=ScheduleStatus.ENDED,
        firings=(DemoFiring(due_at=last - 3 * _DAY_MS, thread_id=DEMO_PREFIX + "failed"),),
    )
    parcels = DemoTrigger(
        trigger_id=DEMO_PREFIX + "parcels",
        spec=TriggerSpec(
            scheme=SignatureScheme.STANDARD_WEBHOOKS,
            secrets=("env:DEMO_DATA_HOOK",),
            target=RunTarget(agent_id=ASSISTANT, input="A parcel came back: {/order}"),
            filter=EventFilter(events=("parcel.returned",)),
            description="Parcels that the carrier brings back",
            is_paused=True,
        ),
        deliveries=(
            DemoDelivery(event="parcel.returned", thread_id=DEMO_PREFIX + "refund"),
            DemoDelivery(event="parcel.sent"),
        ),
    )
    return DemoStarters(schedules=(daily, once), triggers=(parcels,))
