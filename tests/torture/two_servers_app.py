"""What the two servers serve: `awaken serve tests/torture/two_servers_app.py`.

The far one has an agent that does something which must not happen twice. The near one asks it: as
an agent of its own, as a delegate, and as a background task. Models answer by what they are shown
and keep nothing, so that any process can go on with any run.
"""

import asyncio
import os

from tests.torture.two_servers_clients import REVIEWED, SLOWLY

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.contracts.messages.message import Role
from awaken.contracts.models.inference import InferenceRequest
from awaken.contracts.specs.agents import RemoteEndpoint
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.mailbox.config import MailboxConfig
from awaken.testing import ScriptedModel, ToolCalls

STORE, EFFECTS, PEER = "TWO_SERVERS_STORE", "TWO_SERVERS_EFFECTS", "TWO_SERVERS_PEER"
"""Variables with the store's URL, the file of effects, and the far server's URL if this is near."""
THINKING_S, SLOW_S = 0.06, 10.0
_TIMES = MailboxConfig(
    lease_ms=1_000, renew_ms=250, sweep_ms=200, poll_ms=50, relay_ms=200, relay_base_ms=200
)


@tool(effect="idempotent")
async def stamp(text: str, ctx: ToolContext) -> str:
    """Leave a mark that tells which call has made it; the same call makes the same mark."""
    line = f"{ctx.idempotency_key} {text}\n".encode()
    # One write that appends: whole or not at all, also beside others.
    file = os.open(os.environ[EFFECTS], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line)
    finally:
        os.close(file)
    await asyncio.sleep(SLOW_S if text.endswith(SLOWLY) else THINKING_S)
    return "stamped"


@tool(effect="idempotent")
async def inquire(ctx: ToolContext) -> object:
    """Ask back, and go on with the answer."""
    return ctx.suspend("sure?") if ctx.resume is None else f"told {ctx.resume.result}"


async def _review(request: InferenceRequest) -> str | ToolCalls:
    """Stamp what was asked last, then say so; what is a question is asked back first."""
    await asyncio.sleep(THINKING_S)
    last = max(n for n, it in enumerate(request.messages) if it.role is Role.USER)
    asked, after = request.messages[last].text, request.messages[last + 1 :]
    turns = sum(it.role is Role.TOOL for it in after) - asked.startswith("question")
    if turns > 0:
        return f"{REVIEWED} {asked}"
    if turns < 0:
        return ToolCalls([("inquire", {}, f"inquire-{last}")])
    return ToolCalls([("stamp", {"text": asked}, f"stamp-{last}")])


async def _ask(request: InferenceRequest) -> str | ToolCalls:
    """Have somebody else do what was asked first, as the message says: now or as a task."""
    asked = next(it.text for it in request.messages if it.role is Role.USER)
    if any(it.role is Role.TOOL for it in request.messages):
        return f"heard of {asked}"
    if asked.startswith("task"):
        return ToolCalls([("spawn_agent", {"agent_id": "reviewer", "prompt": asked}, "call")])
    return ToolCalls([("agent_run_reviewer", {"prompt": asked}, "call")])


def far() -> AgentRuntime:
    """The server that is asked."""
    reviewer = Agent("reviewer", model=ScriptedModel([_review], cycle=True), tools=[stamp, inquire])
    return AgentRuntime([reviewer], store=os.environ[STORE], mailbox=_TIMES)


def near(peer: str) -> AgentRuntime:
    """The server that asks."""
    place = RemoteEndpoint(
        base_url=f"{peer}/v1/a2a",
        target="reviewer",
        timeout_ms=30_000,
        options={"poll_interval_ms": 200},
    )
    boss = Agent(
        "boss",
        model=ScriptedModel([_ask], cycle=True),
        plugins=[BackgroundTasksPlugin()],
        delegates=["reviewer"],
    )
    agents = [Agent("reviewer", endpoint=place), boss]
    return AgentRuntime(agents, store=os.environ[STORE], mailbox=_TIMES)


runtime = near(os.environ[PEER]) if PEER in os.environ else far()
