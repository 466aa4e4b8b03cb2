"""What clients of a runtime do, so that it can be killed while it serves them.

A client whose process died does the same again from its first step: whatever was done before must
not be done twice. Each step is acknowledged in the world's file as soon as it has returned.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from awaken import AgentRuntime
from awaken.contracts.errors import StoreUnavailable, UnknownRun
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs import RunRecord, RunResult

from .agents import NOTE, Door, forbidden
from .runtime_worlds import World, quiet

WAIT_MS = 8_000
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


async def _sent(
    world: World, runtime: AgentRuntime, order: str, agent: str = "clerk", **options: Any
) -> str:
    receipt = await runtime.submit(
        agent, order, thread_id=THREAD, dedupe_key=order, run_id_hint=f"r-{order}", **options
    )
    world.ack("submitted", receipt.run_id)
    return receipt.run_id


async def _at_rest(runtime: AgentRuntime, run_id: str) -> RunResult:
    return await runtime.wait(run_id, timeout_ms=WAIT_MS)


async def _record(runtime: AgentRuntime, run_id: str) -> RunRecord | None:
    try:
        return await runtime.get_run(run_id)
    except UnknownRun:
        return None


async def _is_busy(runtime: AgentRuntime, run_id: str) -> bool:
    """Wait until the run is inside its slow tool; False when it is over."""
    async with asyncio.timeout(WAIT_MS / 1000):
        while not Door.visitors:
            record = await _record(runtime, run_id)
            if record is not None and record.status is RunStatus.DONE:
                return False
            await asyncio.sleep(0.002)
    return True


async def _slow(world: World, runtime: AgentRuntime) -> tuple[str, bool]:
    """Have a run inside its slow tool, behind a closed door."""
    Door.is_open, Door.visitors = False, 0
    run_id = await _sent(world, runtime, "slow")
    return run_id, await _is_busy(runtime, run_id)


async def _cancel(world: World, runtime: AgentRuntime, run_id: str) -> None:
    if await runtime.cancel(run_id):
        world.ack("cancelled", run_id)


async def _decide(
    world: World, runtime: AgentRuntime, worker: AgentRuntime | None, *call_ids: str
) -> None:
    """Answer the open tickets of these calls, in this order, each with its own answer."""
    for call_id in call_ids:
        for ticket in await runtime.tickets(THREAD):
            if ticket.call_id == call_id:
                await runtime.decide(ticket.ticket_id, result=f"yes to {call_id}")
                world.ack("decided", ticket.ticket_id)
        if worker is not None:
            # One after the other, so that every play of it has the same turns.
            await quiet(worker.store)


async def _batch(world: World) -> None:
    async with world.runtime() as runtime:
        await _at_rest(runtime, await _sent(world, runtime, "batch"))


async def _counted(world: World) -> None:
    async with world.runtime() as runtime:
        await _at_rest(runtime, await _sent(world, runtime, "sums", "counted"))


async def _foreground(world: World) -> None:
    async with world.runtime() as runtime:
        if await _record(runtime, "r-batch") is None:
            await runtime.run("clerk", "batch", thread_id=THREAD, run_id_hint="r-batch")
        await _at_rest(runtime, "r-batch")
        world.ack("submitted", "r-batch")


async def _queue(world: World) -> None:
    async with world.runtime() as runtime:
        for order in ("words", "sums", "batch"):
            await _sent(world, runtime, order)
        for order in ("words", "sums", "batch"):
            await _at_rest(runtime, f"r-{order}")


async def _left_behind(world: World) -> None:
    """Input that is urgent comes while a run without a dispatch is in its tools."""
    async with world.runtime() as runtime:
        Door.is_open, Door.visitors = False, 0
        if await _record(runtime, "r-slow") is None:
            await runtime.start("clerk", "slow", thread_id=THREAD, run_id_hint="r-slow")
        world.ack("submitted", "r-slow")
        await _is_busy(runtime, "r-slow")
        await _sent(world, runtime, "words", priority=0)
        Door.is_open = True
        await _at_rest(runtime, "r-slow")
        await _at_rest(runtime, "r-words")


async def _ask(world: World) -> None:
    async with world.runtime() as runtime:
        await _at_rest(runtime, await _sent(world, runtime, "ask"))
        await _decide(world, runtime, runtime, "second", "first")
        await _at_rest(runtime, "r-ask")
        await quiet(runtime.store)


async def _ask_elsewhere(world: World) -> None:
    async with world.runtime() as runtime, world.runtime(is_able=False) as desk:
        await _at_rest(runtime, await _sent(world, runtime, "ask"))
        await _decide(world, desk, runtime, "second", "first")
        await quiet(runtime.store)
        await _at_rest(runtime, "r-ask")


async def _ask_later(world: World) -> None:
    """Nobody executes anything when the decisions come."""
    async with world.runtime() as runtime:
        await _at_rest(runtime, await _sent(world, runtime, "ask"))
    async with world.runtime(is_able=False) as desk:
        await _decide(world, desk, None, "second", "first")
    async with world.runtime() as runtime:
        await quiet(runtime.store)


async def _ask_at_once(world: World) -> None:
    """Both decisions come together: the second finds a run that executes elsewhere."""
    async with world.runtime() as runtime, world.runtime(is_able=False) as desk:
        await _at_rest(runtime, await _sent(world, runtime, "ask"))
        await _decide(world, desk, None, "second", "first")
        await quiet(runtime.store)


async def _cancel_running(world: World) -> None:
    async with world.runtime() as runtime:
        run_id, is_busy = await _slow(world, runtime)
        if is_busy:
            await _cancel(world, runtime, run_id)
        Door.is_open = True
        await _at_rest(runtime, run_id)


async def _cancel_elsewhere(world: World) -> None:
    async with world.runtime() as runtime, world.runtime(is_able=False) as desk:
        run_id, is_busy = await _slow(world, runtime)
        if is_busy:
            await _cancel(world, desk, run_id)
            await _at_rest(runtime, run_id)
        Door.is_open = True
        await _at_rest(runtime, run_id)


async def _cancel_waiting(world: World) -> None:
    async with world.runtime() as runtime:
        run_id = await _sent(world, runtime, "ask")
        await _at_rest(runtime, run_id)
        await _cancel(world, runtime, run_id)
        await _at_rest(runtime, await _sent(world, runtime, "words"))


async def _cancel_queued(world: World) -> None:
    async with world.runtime() as runtime, world.runtime(is_able=False) as desk:
        run_id, is_busy = await _slow(world, runtime)
        behind = await _sent(world, runtime, "batch")
        if is_busy:
            await _cancel(world, desk, behind)
        Door.is_open = True
        await _at_rest(runtime, run_id)
        await _at_rest(runtime, "r-batch")


async def _steer(world: World) -> None:
    async with world.runtime() as runtime:
        await _steered(world, runtime, runtime)


async def _steer_elsewhere(world: World) -> None:
    async with world.runtime() as runtime, world.runtime(is_able=False) as desk:
        await _steered(world, runtime, desk)


async def _steered(world: World, runtime: AgentRuntime, desk: AgentRuntime) -> None:
    run_id, is_busy = await _slow(world, runtime)
    for note in (f"{NOTE}one", f"{NOTE}two"):
        # No key makes steering idempotent: who was told that it arrived must not repeat it.
        if is_busy and not world.has("steered", note) and not world.has("steering", note):
            world.ack("steering", note)
            if (await desk.steer(run_id, note)).is_accepted:
                world.ack("steered", note)
    Door.is_open = True
    await _at_rest(runtime, run_id)
    await quiet(runtime.store)


async def _interrupt(world: World) -> None:
    async with world.runtime() as runtime:
        run_id, _ = await _slow(world, runtime)
        await _sent(world, runtime, "sums")
        await _sent(world, runtime, "words", mode="interrupt")
        await _at_rest(runtime, run_id)
        Door.is_open = True
        await _at_rest(runtime, "r-words")
        await quiet(runtime.store)


async def _interrupt_waiting(world: World) -> None:
    async with world.runtime() as runtime:
        await _at_rest(runtime, await _sent(world, runtime, "ask"))
        await _sent(world, runtime, "words", mode="interrupt")
        await _at_rest(runtime, "r-words")
        await quiet(runtime.store)


async def _again(world: World) -> None:
    """The store is away twice when the worker wants to begin: it tries again, later."""
    away = StoreUnavailable(store="store", problem="planned")
    faults = (away, away) if world.generation == 0 else ()
    async with world.runtime(faults=faults) as runtime:
        await _at_rest(runtime, await _sent(world, runtime, "batch"))


async def _poison(world: World) -> None:
    async with world.runtime(max_attempts=3) as runtime:
        await _at_rest(runtime, await _sent(world, runtime, "bomb"))


async def _nobody(world: World) -> None:
    async with world.runtime() as runtime:
        await _at_rest(runtime, await _sent(world, runtime, "words", "nobody"))
        await _at_rest(runtime, await _sent(world, runtime, "sums"))


async def _delete(world: World) -> None:
    async with world.runtime() as runtime:
        if not world.has("deleting", THREAD):
            await _at_rest(runtime, await _sent(world, runtime, "batch"))
            world.ack("deleting", THREAD)
        if await runtime.store.load_thread(THREAD) is not None:
            await runtime.store.delete_thread(THREAD)
        world.ack("deleted", THREAD)


async def _drain(world: World) -> None:
    """A run that does not end in time is given back, and another process goes on with it."""
    async with world.runtime(drain_ms=0) as runtime:
        run_id, _ = await _slow(world, runtime)
    Door.is_open = True
    async with world.runtime() as runtime:
        await _at_rest(runtime, run_id)


async def _deadline(world: World) -> None:
    async with world.runtime() as runtime:
        run_id = await _sent(world, runtime, "ask soon")
        async with asyncio.timeout(WAIT_MS / 1000):
            while (await _at_rest(runtime, run_id)).status is not RunStatus.DONE:
                await asyncio.sleep(0.005)


async def _hand_over(world: World) -> None:
    async with world.runtime() as runtime:
        await _at_rest(runtime, await _sent(world, runtime, "hand over", "front"))


async def _approved(world: World) -> None:
    async with world.runtime() as runtime:
        await _at_rest(runtime, await _sent(world, runtime, "wire", "teller"))
        await _decide(world, runtime, runtime, "wire")
        await _at_rest(runtime, "r-wire")
        await quiet(runtime.store)


async def _revoked(world: World) -> None:
    """What was asked for is forbidden by the time somebody says yes."""
    async with world.runtime() as runtime:
        await _at_rest(runtime, await _sent(world, runtime, "wire", "teller"))
        forbidden().touch()
        world.ack("forbidden")
        await _decide(world, runtime, runtime, "wire")
        await _at_rest(runtime, "r-wire")
        await quiet(runtime.store)


SCENARIOS: dict[str, Scenario] = {
    "batch": Scenario(_batch),
    "counted": Scenario(_counted),
    "foreground": Scenario(_foreground),
    "queue": Scenario(_queue),
    "left-behind": Scenario(_left_behind),
    "ask": Scenario(_ask),
    "ask-elsewhere": Scenario(_ask_elsewhere),
    "ask-later": Scenario(_ask_later, varies=frozenset({"order", "events"})),
    "ask-at-once": Scenario(_ask_at_once, varies=EVERYTHING),
    "cancel-running": Scenario(_cancel_running, varies=EVERYTHING),
    "cancel-elsewhere": Scenario(_cancel_elsewhere, varies=EVERYTHING),
    "cancel-waiting": Scenario(_cancel_waiting, varies=frozenset({"events"})),
    "cancel-queued": Scenario(_cancel_queued, varies=EVERYTHING),
    "steer": Scenario(_steer, varies=EVERYTHING),
    "steer-elsewhere": Scenario(_steer_elsewhere, varies=EVERYTHING),
    "interrupt": Scenario(_interrupt, varies=EVERYTHING),
    "interrupt-waiting": Scenario(_interrupt_waiting),
    "again": Scenario(_again, attempts=3),
    "poison": Scenario(_poison, crashes=3, attempts=4),
    "nobody": Scenario(_nobody),
    "delete": Scenario(_delete),
    "drain": Scenario(_drain),
    "deadline": Scenario(_deadline),
    "hand-over": Scenario(_hand_over),
    "approved": Scenario(_approved),
    "revoked": Scenario(_revoked),
}
