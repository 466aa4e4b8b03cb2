"""What tests of suspended runs share: tools that ask, gates that ask, and a second process."""

import asyncio
from typing import Any

from awaken import AgentEvent, SuspendTicket, ToolContext, tool
from awaken.messages import Role
from awaken.plugins import Suspend, ToolGateContext
from awaken.tools import ResumeMode, Suspension

from .worlds import Gate, Story, WatchedStore, World


class Asking:
    """Tools that note how they were run: `ask` suspends until it has a decision."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

        @tool
        async def ask(question: str, ctx: ToolContext) -> Any:
            self.ran.append((question, ctx.resume and ctx.resume.result))
            return ctx.suspend(question) if ctx.resume is None else f"told {ctx.resume.result}"

        @tool
        async def add(a: int, b: int) -> int:
            self.ran.append(a + b)
            return a + b

        self.tools = [ask, add]


class SlowReads(WatchedStore):
    """A store that also takes its time to read, so that others get in between."""

    async def checkout(self, thread_id: str) -> Any:
        await asyncio.sleep(0)
        return await super().checkout(thread_id)

    async def find_ticket(self, ticket_id: str) -> Any:
        await asyncio.sleep(0)
        return await super().find_ticket(ticket_id)


def asks_permission(mode: ResumeMode = ResumeMode.REPLAY_TOOL_CALL) -> Gate:
    """A gate that wants every call approved."""

    async def gate(_: ToolGateContext) -> Suspend:
        return Suspend(ticket=SuspendTicket(suspension=Suspension(action="may"), resume_mode=mode))

    return Gate(gate)


def another_process(world: World, **agent: Any) -> World:
    """A second runtime that shares nothing with the first but the store (and the model)."""
    return World(model=world.model, store=world.store, **agent)


async def logged(world: World, thread_id: str = "t") -> list[AgentEvent]:
    """The log of a thread."""
    return [entry.event for entry in await world.store.list_events(thread_id)]


async def retold(world: World) -> Story:
    """The story of the one run of thread "t", judged by its log."""
    return await world.judged(await logged(world), None, "t")


async def open_tickets(world: World, thread_id: str = "t") -> list[str]:
    """The ids of the thread's open tickets, in call order."""
    found = sorted(await world.runtime.tickets(thread_id), key=lambda ticket: ticket.call_id)
    return [ticket.ticket_id for ticket in found]


async def finished(world: World, thread_id: str = "t") -> Any:
    """Wait for the one run of a thread."""
    (run,) = await world.runtime.list_runs(thread_id)
    return await world.runtime.wait(run.run_id)


def tool_answers(story: Story) -> dict[str, str]:
    """The text that answers each call."""
    return {
        message.tool_call_id or "": message.text
        for message in story.messages
        if message.role is Role.TOOL
    }
