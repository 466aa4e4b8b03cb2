"""The steps of which clients of a runtime are made, and what a scenario is.

Each step is acknowledged in the world's file as soon as it has returned.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from awaken import AgentRuntime
from awaken.contracts.errors import UnknownRun
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunRecord, RunResult
from awaken.contracts.suspension.tickets import Asks

from .agents import Door
from .runtime_worlds import World, quiet

WAIT_MS = 20_000
THREAD = "t"
EVERYTHING = frozenset({"order", "messages", "runs", "events", "state", "effects"})


@dataclass(frozen=True, slots=True)
class Scenario:
    """A client, and how alike every ending must be."""

    client: Callable[[World], Awaitable[None]]
    varies: frozenset[str] = frozenset()
    """What of the ending depends on when the crash came, because the client is overtaken."""
    crashes: int = 0
    """How often its process dies by itself."""
    attempts: int = 1
    """How often a dispatch is tried if nobody is killed."""


async def sent(
    world: World, runtime: AgentRuntime, order: str, agent: str = "clerk", **options: Any
) -> str:
    """Submit an order under ids of its own; returns the run's."""
    receipt = await runtime.submit(
        agent, order, thread_id=THREAD, dedupe_key=order, run_id_hint=f"r-{order}", **options
    )
    world.ack("submitted", receipt.run_id)
    return receipt.run_id


async def at_rest(runtime: AgentRuntime, run_id: str) -> RunResult:
    """Wait until a run ends or waits for somebody."""
    return await runtime.wait(run_id, timeout_ms=WAIT_MS)


async def record(runtime: AgentRuntime, run_id: str) -> RunRecord | None:
    """The record of a run, if there is one."""
    try:
        return await runtime.get_run(run_id)
    except UnknownRun:
        return None


async def is_busy(runtime: AgentRuntime, run_id: str) -> bool:
    """Wait until the run is inside its slow tool; False when it is over."""
    async with asyncio.timeout(WAIT_MS / 1000):
        while not Door.visitors:
            found = await record(runtime, run_id)
            if found is not None and found.status is RunStatus.DONE:
                return False
            await asyncio.sleep(0.002)
    return True


async def slow(world: World, runtime: AgentRuntime) -> tuple[str, bool]:
    """Have a run inside its slow tool, behind a closed door."""
    Door.is_open, Door.visitors = False, 0
    run_id = await sent(world, runtime, "slow")
    return run_id, await is_busy(runtime, run_id)


async def cancel(world: World, runtime: AgentRuntime, run_id: str) -> None:
    """Cancel a run that has not ended."""
    if await runtime.cancel(run_id):
        world.ack("cancelled", run_id)


async def decide(
    world: World, runtime: AgentRuntime, worker: AgentRuntime | None, *call_ids: str
) -> None:
    """Answer the open tickets of these calls, in this order, each with its own answer."""
    for call_id in call_ids:
        for ticket in await runtime.tickets(THREAD):
            if ticket.call_id == call_id:
                is_permission = ticket.question_kind is Asks.PERMISSION
                said = "yes" if is_permission else f"yes to {call_id}"
                await runtime.decide(ticket.ticket_id, result=said)
                world.ack("decided", ticket.ticket_id)
        if worker is not None:
            # One after the other, so that every play of it has the same turns.
            await quiet(worker.store)
