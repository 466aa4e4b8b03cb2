"""The agents of the demo data, and the engine that executes them and nothing else."""

from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any, cast

from awaken.authoring.agents import Agent
from awaken.authoring.functions import tool
from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.memory.records import FactOrigin, FactSource
from awaken.contracts.messages.deltas import TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import Role
from awaken.contracts.models.errors import InvalidRequest
from awaken.contracts.models.inference import (
    InferenceRequest,
    ModelEvent,
    Stop,
    StopReason,
    TokenUsage,
    UsageReport,
)
from awaken.contracts.storage.schedules import ScheduleStore
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import SuspendTicket
from awaken.contracts.tools.context import ToolContext
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.leases import LeaseBook
from awaken.runtime.limits import Limits
from awaken.services.demo_data import DemoContent, DemoData, DemoNotes, DemoStory
from awaken.services.demo_evals import DemoEvals
from awaken.stores.memory.profiles import MemoryProfileStore

from .composition import RuntimeParts
from .demo_unattended import ASSISTANT, RETURN, build_return, make_starters
from .host_agents import registry_handle
from .registries import registry_set
from .run_services import build_services

LONG_STEPS = 10

Turn = str | tuple[str, str]
"""An answer, or the name of a tool and the JSON of its arguments."""

_LOOK = ("find_order", '{"order": "A-1042"}')
_SCRIPTS: Mapping[str, tuple[Turn, ...]] = {
    "Where is my order A-1042?": (_LOOK, "Order A-1042 left the warehouse and arrives on Friday."),
    "Thanks, and its price?": (_LOOK, "It cost 42.00 EUR."),
    "Refund order A-1042.": (
        _LOOK,
        ("refund", '{"order": "A-1042", "amount": 42}'),
        "The refund is on its way.",
    ),
    "Check all orders of this week.": (*(_LOOK,) * LONG_STEPS, "All orders of this week are fine."),
    "Compare the two carriers.": (
        ("agent_run_demo-researcher", '{"prompt": "Which carrier is faster?"}'),
        "The first carrier is a day faster.",
    ),
    "Which carrier is faster?": (_LOOK, "The first one, by a day."),
}
"""What the model answers to a message, turn by turn; to any other it fails."""
_STORIES = tuple(
    DemoStory(name=name, title=title, agent_id=agent_id, messages=messages)
    for agent_id, name, title, messages in (
        (
            ASSISTANT,
            "order",
            "Where is my order?",
            ("Where is my order A-1042?", "Thanks, and its price?"),
        ),
        (ASSISTANT, "refund", "A refund that needs an approval", ("Refund order A-1042.",)),
        (ASSISTANT, "failed", "A question that fails", ("What does the weather do to my order?",)),
        (ASSISTANT, "long", "A long check", ("Check all orders of this week.",)),
        (ASSISTANT, "children", "A question for two agents", ("Compare the two carriers.",)),
        (RETURN, "small-return", "A return that needs no parcel", ("A-0977",)),
        (RETURN, "return", "A return that waits for its parcel", ("A-1042",)),
    )
)
_NOTES = DemoNotes(
    facts=(
        "Order A-1042 was delivered late once; the customer got a voucher.",
        "Refunds above 40.00 EUR need an approval.",
        "The first carrier is a day faster than the second one.",
    ),
    source=FactSource(
        origin=FactOrigin.TOOL,
        thread_id=_STORIES[0].thread_id,
        agent_id=ASSISTANT,
    ),
    title="Shipping handbook",
    document="""# Shipping handbook

## Carriers

The first carrier delivers within two days, the second one within three.

## Refunds

A refund above 40.00 EUR waits for an approval. It is paid back the way the order was paid.

| Amount | Approval |
|---|---|
| up to 40.00 EUR | none |
| above | one person |
""",
)


PRICES = {"A-1042": 42.0}


@tool(effect="none")
async def find_order(order: str) -> dict[str, Any]:
    """Find an order.

    Args:
        order: The number of the order.
    """
    price = PRICES.get(order, 12.0)
    return {"order": order, "status": "sent", "price": price, "currency": "EUR"}


@tool
async def refund(ctx: ToolContext, order: str, amount: float) -> SuspendTicket | str:
    """Refund an order, after an approval.

    Args:
        ctx: The call.
        order: The number of the order.
        amount: How much to pay back.
    """
    if ctx.resume is None:
        return ctx.suspend(f"Refund {amount:.2f} EUR for order {order}?", action="approve_refund")
    return "refunded"


class DemoModel:
    """Answers from the scripts: the last message of a user selects one."""

    name = "demo"

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the turn of the script; raise if there is no script for the message."""
        turns, said = 0, ""
        for message in reversed(request.messages):
            if message.role is Role.USER:
                said = message.text
                break
            turns += message.role is Role.ASSISTANT
        script = _SCRIPTS.get(said)
        if script is None:
            raise InvalidRequest("The demo has no answer to this, so that a run fails.")
        turn = script[min(turns, len(script) - 1)]
        if isinstance(turn, str):
            yield TextDelta(delta=turn)
        else:
            call_id = f"call_{turns + 1}"
            yield ToolCallStart(id=call_id, name=turn[0])
            yield ToolCallDelta(id=call_id, args_delta=turn[1])
        yield UsageReport(usage=TokenUsage(prompt_tokens=200, completion_tokens=20))
        yield Stop(reason=StopReason.END_TURN if isinstance(turn, str) else StopReason.TOOL_USE)


def build_demo_data(
    store: Store, clock: Clock, parts: RuntimeParts, leases: LeaseBook | None
) -> DemoData:
    """Build the maker of demo data for a store; its agents are made when they are first needed."""
    build_engine = partial(_build_engine, store, clock, parts.ids, leases)
    content = DemoContent(
        stories=_STORIES, notes=_NOTES, make_starters=make_starters, make_evals=_make_evals
    )
    schedules = cast(ScheduleStore, store) if hasattr(store, "claim_schedules") else None
    return DemoData(store, clock, build_engine, content, parts.memory.find, schedules)


def _make_evals(now_ms: int) -> DemoEvals:
    # Its figures are computed by what computes those of real evals, which few programs load.
    from .demo_evals import make_evals  # noqa: PLC0415

    return make_evals(now_ms)


def _build_engine(store: Store, clock: Clock, ids: IdSource, leases: LeaseBook | None) -> RunEngine:
    model, limits = DemoModel(), Limits()
    options: dict[str, Any] = {"model": model, "tools": [find_order, refund]}
    agents = [
        Agent(ASSISTANT, delegates=["demo-researcher"], **options),
        Agent("demo-researcher", description="Compares carriers.", **options),
        build_return(find_order),
    ]
    registry = registry_handle(registry_set(agents, (), (), {}, {}), None, limits.resolver_ms)
    services = build_services({}, limits, clock, ids, MemoryProfileStore(), store)
    return RunEngine(store, registry, services, leases)
