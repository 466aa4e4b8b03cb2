"""The agent that wrote the golden store of decisions. Never changed afterwards."""

import asyncio
from typing import Any

from awaken import Agent, ToolContext, tool
from awaken.contracts.messages.message import Role
from awaken.contracts.models.inference import InferenceRequest
from awaken.extensions.permission import PermissionPlugin
from awaken.testing import ScriptedModel, ToolCalls


class Hold:
    """Lets the writer of the golden store stop the world inside `wait_for_courier`."""

    is_wanted = False
    entered = asyncio.Event()


PAID: list[int] = []
"""What this process has paid."""


@tool(effect="once")
async def pay(amount: int) -> str:
    """Pay."""
    PAID.append(amount)
    return f"paid {amount}"


@tool(effect="idempotent")
async def wait_for_courier() -> str:
    """Wait for the courier."""
    if Hold.is_wanted:
        Hold.entered.set()
        await asyncio.Event().wait()
    return "the courier came"


@tool(effect="once")
def ask(question: str, ctx: ToolContext) -> Any:
    """Ask the customer."""
    return f"they said {ctx.resume.result}" if ctx.resume else ctx.suspend(question)


def calls_for(name: str) -> ToolCalls:
    """One payment that needs permission; `both` also asks, `beside` also waits for the courier."""
    calls: list[Any] = [("pay", {"amount": 7}, f"{name}-pay")]
    if name == "both":
        calls.append(("ask", {"question": "Which colour?"}, f"{name}-ask"))
    if name.startswith("beside"):
        calls.append(("wait_for_courier", {}, f"{name}-courier"))
    return ToolCalls(calls)


def answer(request: InferenceRequest) -> Any:
    last = request.messages[-1]
    if last.role is not Role.TOOL:
        return calls_for(last.text)
    results = []
    for message in reversed(request.messages):
        if message.role is not Role.TOOL:
            break
        results.append(message.text)
    return "; ".join(reversed(results))


agent = Agent(
    "shop",
    model=ScriptedModel([answer], cycle=True),
    tools=[pay, wait_for_courier, ask],
    plugins=[PermissionPlugin()],
    config={
        "permission": {
            "default_behavior": "allow",
            "rules": [{"tool": "pay", "behavior": "ask", "scope": "thread"}],
        }
    },
)
