"""The agents that wrote the golden store; what its runs need to go on. Never changed afterwards."""

import asyncio
from typing import Any

from awaken import Agent, Plugin, PluginRegistrar, StateKey, ToolContext, tool
from awaken.contracts.messages.message import Role
from awaken.contracts.models.inference import InferenceRequest
from awaken.contracts.state.profile import GLOBAL_SCOPE, ProfileKey
from awaken.testing import ScriptedModel, ToolCalls

VISITS: StateKey[int, int] = StateKey("visits", default=0, scope="thread", apply=int.__add__)
BASKET: StateKey[list[str], list[str]] = StateKey("basket", default=[], type=list[str])
FAVOURITE: ProfileKey[str] = ProfileKey("favourite", default="", type=str)


class Memory(Plugin):
    name = "memory"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.key(VISITS)
        registrar.key(BASKET)
        registrar.profile_key(FAVOURITE)


class Hold:
    """Lets the writer of the golden store stop the world inside `pay`; nobody else uses it."""

    is_wanted = False
    entered = asyncio.Event()


@tool(effect="idempotent")
async def visit(city: str, ctx: ToolContext) -> str:
    """Visit a city."""
    ctx.state.update(VISITS, 1)
    ctx.state.set(BASKET, [city])
    assert ctx.profile is not None
    await ctx.profile.write(FAVOURITE, GLOBAL_SCOPE, city)
    return f"visited {city}"


@tool(effect="once")
async def pay(amount: int) -> str:
    """Pay."""
    if Hold.is_wanted:
        Hold.entered.set()
        await asyncio.Event().wait()
    return f"paid {amount}"


@tool(effect="once")
def ask(question: str, ctx: ToolContext) -> Any:
    """Ask somebody."""
    return f"they said {ctx.resume.result}" if ctx.resume else ctx.suspend(question)


PLANS: dict[str, ToolCalls] = {
    "visit": ToolCalls([("visit", {"city": "Rome"}, "visit-1")]),
    "ask": ToolCalls([("ask", {"question": "Shall I?"}, "ask-1")]),
    "pay": ToolCalls([("visit", {"city": "Oslo"}, "visit-2"), ("pay", {"amount": 3}, "pay-1")]),
}


def answer(request: InferenceRequest) -> Any:
    results = [it.text for it in request.messages if it.role is Role.TOOL]
    last = request.messages[-1]
    if last.role is Role.TOOL:
        return f"Done: {results[-1]}"
    return PLANS.get(last.text, f"You said: {last.text}")


agent = Agent(
    "traveller",
    model=ScriptedModel([answer], cycle=True),
    tools=[visit, pay, ask],
    plugins=[Memory()],
)
