"""The agents of the runtime stages. `awaken worker tests/torture/agents.py` can execute them.

A model answers by what it is shown and keeps nothing, so any process can go on with any run. Tools
write what they did into a ledger that outlives them, in the file that `TORTURE_LEDGER` names.
"""

import asyncio
import os
import signal
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from tests.torture.doomed import passing
from tests.torture.history import Ledger

from awaken import Agent, Phase, Plugin, PluginRegistrar, StateCommand, StateKey, ToolContext, tool
from awaken.contracts.clock import SystemClock
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.models.inference import InferenceRequest
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT
from awaken.contracts.plugins.plugin import Block, Suspend, ToolGateContext
from awaken.contracts.state.keys import StateScope
from awaken.contracts.suspension.tickets import SuspendTicket, Suspension
from awaken.testing import ScriptedModel, ToolCalls

LEDGER = "TORTURE_LEDGER"
NOTE = "note "
"""How a message begins that is no order but belongs to the one before it."""
DEADLINE_MS = 40
NAP_S, DOZE_S = 0.03, 1.5

NOTES: StateKey[tuple[str, ...], str] = StateKey(
    "torture.notes",
    default=(),
    type=tuple[str, ...],
    apply=lambda notes, note: tuple(sorted((*notes, note))),
    merge="commutative",
    scope=StateScope.THREAD,
)
TOTAL: StateKey[int, int] = StateKey("torture.total", default=0, scope=StateScope.THREAD)

ORDERS: dict[str, list[Any]] = {
    "words": ["only words"],
    "batch": [
        ToolCalls(
            [
                ("look", {"text": "a"}, "look"),
                ("put", {"text": "b"}, "put"),
                ("send", {"text": "c"}, "send"),
                ("pay", {"text": "d"}, "pay"),
            ]
        ),
        ToolCalls([("pay", {"text": "e"}, "pay"), ("add", {"amount": 2}, "add")], text="more"),
        "done",
    ],
    "sums": [
        ToolCalls([("add", {"amount": 1}, "one"), ("add", {"amount": 2}, "two")]),
        ToolCalls([("add", {"amount": 3}, "three")]),
        "summed",
    ],
    "ask": [
        ToolCalls(
            [
                ("ask", {"text": "first"}, "first"),
                ("put", {"text": "x"}, "put"),
                ("ask", {"text": "second"}, "second"),
            ]
        ),
        "answered",
    ],
    "ask soon": [ToolCalls([("ask_soon", {}, "soon")]), "too late"],
    "slow": [
        ToolCalls(
            [("slow", {}, "slow"), ("put", {"text": "s"}, "put"), ("send", {"text": "s"}, "send")]
        ),
        "slowly done",
    ],
    "bomb": [ToolCalls([("put", {"text": "x"}, "put")]), ToolCalls([("bomb", {}, "bomb")]), "?"],
    "wire": [ToolCalls([("wire", {"text": "w"}, "wire")]), "wired"],
    "hand over": [
        ToolCalls([("hand_over", {}, "over"), ("put", {"text": "h"}, "put")]),
        ToolCalls([("pay", {"text": "p"}, "pay")]),
        "handed over",
    ],
    "errand": [
        ToolCalls([("put", {"text": "x"}, "put"), ("send", {"text": "y"}, "send")]),
        ToolCalls([("nap", {}, "nap"), ("pay", {"text": "z"}, "pay")]),
        "run",
    ],
    "naps": [*(ToolCalls([("nap", {}, f"nap{n}")]) for n in range(4)), "awake"],
    "doze": [ToolCalls([("doze", {}, "doze")]), "awake again"],
    "question": [ToolCalls([("ask", {"text": "?"}, "ask")]), "answered"],
}
"""What the model says, turn by turn, to a message."""


class Door:
    """Holds `slow` back until it is opened."""

    is_open = True
    visitors = 0


def ledger() -> Ledger:
    """The ledger of the process."""
    return Ledger(Path(os.environ[LEDGER]))


def forbidden() -> Path:
    """While this file is there, the gate lets nobody wire anything."""
    return Path(os.environ[LEDGER]).with_name("forbidden")


def _note(ctx: ToolContext, at: str = "start") -> None:
    name = f"{ctx.tool_name} {ctx.call_id} {ctx.idempotency_key}"
    ledger().note(ctx.run.run_id, name, int(ctx.resume is not None), at)


def _is_noted(ctx: ToolContext) -> bool:
    return any(it.call_id.endswith(f" {ctx.idempotency_key}") for it in ledger().read())


async def _act(ctx: ToolContext) -> None:
    """Have the effect that cannot be undone, with a point on both sides of it."""
    passing(f"tool {ctx.call_id} before")
    _note(ctx)
    passing(f"tool {ctx.call_id} after")
    await asyncio.sleep(0)


@tool(effect="none")
async def look(text: str, ctx: ToolContext) -> str:
    await _act(ctx)
    return f"saw {text}"


@tool(effect="idempotent")
async def put(text: str, ctx: ToolContext) -> str:
    await _act(ctx)
    ctx.state.update(NOTES, f"put {text}")
    return f"put {text}"


@tool(effect="idempotent")
async def add(amount: int, ctx: ToolContext) -> str:
    await _act(ctx)
    ctx.state.set(TOTAL, ctx.state.get(TOTAL) + amount)
    return f"added {amount}"


@tool(effect="once")
async def send(text: str, ctx: ToolContext) -> str:
    await _act(ctx)
    return f"sent {text}"


async def paid(text: str, ctx: ToolContext) -> str | None:
    return f"paid {text}" if _is_noted(ctx) else None


@tool(effect="once", reconcile=paid)
async def pay(text: str, ctx: ToolContext) -> str:
    await _act(ctx)
    return f"paid {text}"


async def told(text: str, ctx: ToolContext) -> str | None:
    is_told = ctx.resume is not None and _is_noted(ctx)
    return f"{text}: {ctx.resume.result}" if is_told and ctx.resume else None


@tool(effect="once", reconcile=told)
async def ask(text: str, ctx: ToolContext) -> Any:
    if ctx.resume is None:
        return ctx.suspend(text)
    await _act(ctx)
    return f"{text}: {ctx.resume.result}"


@tool(effect="idempotent")
async def ask_soon(ctx: ToolContext) -> Any:
    ticket = ctx.suspend("soon")
    return msgspec.structs.replace(ticket, expires_at=SystemClock().now_ms() + DEADLINE_MS)


@tool(effect="idempotent")
async def slow(ctx: ToolContext) -> str:
    await _act(ctx)
    Door.visitors += 1
    while not Door.is_open:
        await asyncio.sleep(0.001)
    return "at last"


@tool(effect="idempotent")
async def nap(ctx: ToolContext) -> str:
    _note(ctx)
    await asyncio.sleep(NAP_S)
    return "rested"


@tool(effect="once")
async def doze(ctx: ToolContext) -> str:
    """Block the whole event loop, for longer than two leases last."""
    _note(ctx)
    time.sleep(DOZE_S)
    return "rested"


@tool(effect="idempotent")
async def bomb(ctx: ToolContext) -> str:
    await _act(ctx)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool(effect="once")
async def wire(text: str, ctx: ToolContext) -> str:
    await _act(ctx)
    return f"wired {text}"


@tool(effect="idempotent")
async def hand_over(ctx: ToolContext) -> str:
    await _act(ctx)
    ctx.state.set(ACTIVE_AGENT, "back")
    return "over"


class Counting(Plugin):
    """Counts every phase in durable state, so that a hook that acts twice or never shows."""

    def __init__(self, name: str = "counting") -> None:
        self.name = name

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.key(NOTES)
        registrar.key(TOTAL)
        for phase in Phase:
            if phase is not Phase.TOOL_GATE:
                registrar.hook(phase, self._noting(phase))

    def _noting(self, phase: Phase) -> Any:
        async def note(context: Any) -> StateCommand:
            call = getattr(context, "call", None)
            place = call.id if call else context.step
            return StateCommand().update(NOTES, f"{self.name} {phase}:{place}")

        return note


class Keys(Plugin):
    """Makes the keys known, and nothing else."""

    name = "keys"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.key(NOTES)
        registrar.key(TOTAL)


class Permission(Plugin):
    """Wants every wire approved, and looks again before it is run: it may be forbidden by then."""

    name = "permission"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.gate(self._gate)

    async def _gate(self, _: ToolGateContext) -> Any:
        if forbidden().exists():
            return Block(reason="forbidden")
        return Suspend(ticket=SuspendTicket(suspension=Suspension(action="may")))


def model_of(orders: Mapping[str, Sequence[Any]]) -> ScriptedModel:
    """A model that knows these orders."""
    return ScriptedModel([partial(_answer, orders)], cycle=True)


def _answer(orders: Mapping[str, Sequence[Any]], request: InferenceRequest) -> Any:
    """The next turn of the last order, by how many turns it has had."""
    passing("model")
    order, turns = "words", 0
    for message in request.messages:
        if message.role is Role.USER and _is_order(message):
            order, turns = message.text.partition(":")[0], 0
        elif message.role is Role.ASSISTANT:
            turns += 1
    entries = orders.get(order, ORDERS["words"])
    return entries[turns] if turns < len(entries) else "nothing more"


def _is_order(message: Message) -> bool:
    """What tasks and other agents say is none."""
    return message.sender is None and not message.text.startswith(NOTE)


def made() -> list[Agent]:
    """Fresh agents."""
    model = model_of(ORDERS)
    tools = [look, put, add, send, pay, ask, ask_soon, slow, nap, doze, bomb]
    return [
        Agent("clerk", model=model, tools=tools, plugins=[Keys()]),
        Agent("counted", model=model, tools=tools, plugins=[Counting()]),
        Agent("teller", model=model, tools=[wire], plugins=[Permission()]),
        Agent("front", model=model, tools=[hand_over, put], plugins=[Counting("front")]),
        Agent("back", model=model, tools=[pay], plugins=[Counting("back")]),
    ]


AGENTS = made()
clerk, counted, teller, front, back = AGENTS
