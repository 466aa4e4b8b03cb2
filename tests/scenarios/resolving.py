"""What tests of resolvers share: a table of agents, and every mistake a resolver can make."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from awaken import (
    Agent,
    AgentResolver,
    AgentRuntime,
    Plugin,
    PluginRegistrar,
    RunResult,
    ToolContext,
    tool,
)
from awaken.contracts.lifecycle import RunStatus
from awaken.testing import ScriptedModel, ToolCalls

from .delegating import NO_RETRIES, QUICK

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"
WAIT_S = 20


def agent(id_: str, *script: Any, **options: Any) -> Agent:
    return Agent(id_, model=ScriptedModel(script), **{"config": NO_RETRIES, **options})


class Book:
    """A resolver with a table of agents; it notes what it is asked for."""

    def __init__(self, *agents: Any) -> None:
        self.agents: dict[str, Any] = {it.id: it for it in agents}
        self.asked: list[str] = []

    async def resolve(self, agent_id: str, /) -> Any:
        self.asked.append(agent_id)
        return self.agents.get(agent_id)


class Counter(Plugin):
    """Counts how often its agent was compiled."""

    name = "counter"

    def __init__(self) -> None:
        self.count = 0

    def register(self, registrar: PluginRegistrar) -> None:
        self.count += 1


def host(store: Any, resolver: AgentResolver, *agents: Any, **options: Any) -> AgentRuntime:
    return AgentRuntime(agents, resolver=resolver, store=store, mailbox=QUICK, **options)


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S):
            await scenario()

    asyncio.run(bounded())


@tool
async def confirm(ctx: ToolContext) -> Any:
    """Ask a person."""
    return ctx.suspend("sure?") if ctx.resume is None else "confirmed"


def careful(*script: Any, **options: Any) -> Agent:
    return agent("careful", *script, tools=[confirm], **options)


async def suspend_run(store: Any) -> RunResult:
    """Run an agent of a resolver until it waits for a person; its process is gone by then."""
    async with host(store, Book(careful(ToolCalls([("confirm", {})])))) as rt:
        waiting = await rt.run("careful", "go", thread_id="t")
    assert waiting.status is RunStatus.WAITING
    return waiting


@dataclass(frozen=True)
class Wrong:
    """A resolver's mistake, and what is said of it."""

    returns: Callable[[str], Awaitable[Any]]
    problem: str


async def _other(_: str) -> Any:
    return agent("carol")


async def _text(_: str) -> Any:
    return {"id": "bob", "api_key": SECRET}


async def _class(_: str) -> Any:
    return Agent


async def _raises(_: str) -> Any:
    raise ConnectionError(f"postgres://app:{SECRET}@db/agents is away")


async def _cancels(_: str) -> Any:
    """Wait for a task of the host's own that was cancelled."""
    task = asyncio.create_task(asyncio.sleep(60))
    task.cancel()
    await task


async def _times_out(_: str) -> Any:
    raise TimeoutError(f"no answer of {SECRET}")


async def _hangs(_: str) -> Any:
    await asyncio.Event().wait()


WRONG = {
    "other id": Wrong(_other, "it returned the agent 'carol'"),
    "wrong type": Wrong(_text, "it returned a dict, not an Agent, an AgentSpec or None"),
    "a class": Wrong(_class, "it returned a type, not an Agent, an AgentSpec or None"),
    "raises": Wrong(_raises, "it raised ConnectionError; the log has more"),
    "raises a timeout": Wrong(_times_out, "it raised TimeoutError; the log has more"),
    "cancels": Wrong(_cancels, "it raised CancelledError; the log has more"),
    "hangs": Wrong(_hangs, "it did not answer within 50 ms"),
}


class Mistaken(Book):
    """A resolver that is wrong about one agent, until it is in the table."""

    def __init__(self, wrong: Wrong, *agents: Any, wrong_about: str = "bob") -> None:
        super().__init__(*agents)
        self.wrong, self.wrong_about = wrong, wrong_about

    async def resolve(self, agent_id: str, /) -> Any:
        if agent_id == self.wrong_about and agent_id not in self.agents:
            return await self.wrong.returns(agent_id)
        return await super().resolve(agent_id)
