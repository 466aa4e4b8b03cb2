"""What clients of a runtime do, so that it can be killed while it serves them.

A client whose process died does the same again from its first step: whatever was done before must
not be done twice.
"""

import asyncio

from awaken import AgentRuntime
from awaken.contracts.errors import AlreadyDecided, StoreUnavailable
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.suspension.tickets import DecisionAction, ToolCallResume

from .agents import NOTE, Door, forbidden
from .client_steps import (
    EVERYTHING,
    THREAD,
    WAIT_MS,
    Scenario,
    at_rest,
    cancel,
    decide,
    is_busy,
    record,
    sent,
    slow,
)
from .runtime_worlds import World, quiet


async def _batch(world: World) -> None:
    async with world.runtime() as runtime:
        await at_rest(runtime, await sent(world, runtime, "batch"))


async def _counted(world: World) -> None:
    async with world.runtime() as runtime:
        await at_rest(runtime, await sent(world, runtime, "sums", "counted"))


async def _foreground(world: World) -> None:
    async with world.runtime() as runtime:
        if await record(runtime, "r-batch") is None:
            await runtime.run("clerk", "batch", thread_id=THREAD, run_id_hint="r-batch")
        await at_rest(runtime, "r-batch")
        world.ack("submitted", "r-batch")


async def _queue(world: World) -> None:
    async with world.runtime() as runtime:
        for order in ("words", "sums", "batch"):
            await sent(world, runtime, order)
        for order in ("words", "sums", "batch"):
            await at_rest(runtime, f"r-{order}")


async def _left_behind(world: World) -> None:
    """Input that is urgent comes while a run without a dispatch is in its tools."""
    async with world.runtime() as runtime:
        Door.is_open, Door.visitors = False, 0
        if await record(runtime, "r-slow") is None:
            await runtime.start("clerk", "slow", thread_id=THREAD, run_id_hint="r-slow")
        world.ack("submitted", "r-slow")
        await is_busy(runtime, "r-slow")
        await sent(world, runtime, "words", priority=0)
        Door.is_open = True
        await at_rest(runtime, "r-slow")
        await at_rest(runtime, "r-words")


async def _ask(world: World) -> None:
    async with world.runtime() as runtime:
        await at_rest(runtime, await sent(world, runtime, "ask"))
        await decide(world, runtime, runtime, "second", "first")
        await at_rest(runtime, "r-ask")
        await quiet(runtime.store)


async def _ask_elsewhere(world: World) -> None:
    async with world.runtime() as runtime, world.runtime(is_able=False) as desk:
        await at_rest(runtime, await sent(world, runtime, "ask"))
        await decide(world, desk, runtime, "second", "first")
        await quiet(runtime.store)
        await at_rest(runtime, "r-ask")


async def _ask_later(world: World) -> None:
    """Nobody executes anything when the decisions come."""
    async with world.runtime() as runtime:
        await at_rest(runtime, await sent(world, runtime, "ask"))
    async with world.runtime(is_able=False) as desk:
        await decide(world, desk, None, "second", "first")
    async with world.runtime() as runtime:
        await quiet(runtime.store)


async def _ask_at_once(world: World) -> None:
    """Both decisions come together: the second finds a run that executes elsewhere."""
    async with world.runtime() as runtime, world.runtime(is_able=False) as desk:
        await at_rest(runtime, await sent(world, runtime, "ask"))
        await decide(world, desk, None, "second", "first")
        await quiet(runtime.store)


async def _ask_all(world: World) -> None:
    """One request decides on all tickets of a run, which executes elsewhere."""
    async with world.runtime() as runtime, world.runtime(is_able=False) as desk:
        await at_rest(runtime, await sent(world, runtime, "ask"))
        given = {
            it.ticket_id: ToolCallResume(
                decision_id=f"yes-{it.call_id}", result=f"yes to {it.call_id}"
            )
            for it in await desk.tickets(THREAD)
        }
        if given:
            await desk.decide_all(given)
        for ticket_id, it in given.items():
            world.ack("decided", ticket_id)
            world.ack("taken", ticket_id, it.decision_id)
        await quiet(runtime.store)


async def _ask_both_ways(world: World) -> None:
    """Two desks say the opposite about one ticket: one of them is refused, in every life."""
    async with (
        world.runtime() as runtime,
        world.runtime(is_able=False) as one,
        world.runtime(is_able=False) as two,
    ):
        await at_rest(runtime, await sent(world, runtime, "wire", "teller"))
        for ticket in await runtime.tickets(THREAD):
            await asyncio.gather(
                _take(world, one, ticket.ticket_id, DecisionAction.RESUME),
                _take(world, two, ticket.ticket_id, DecisionAction.CANCEL),
            )
        await quiet(runtime.store)


async def _take(world: World, desk: AgentRuntime, ticket_id: str, action: DecisionAction) -> None:
    try:
        await desk.decide(ticket_id, action, decision_id=str(action))
    except AlreadyDecided:
        return
    world.ack("decided", ticket_id)
    world.ack("taken", ticket_id, str(action))
    if action is DecisionAction.CANCEL:
        world.ack("forbidden")


async def _cancel_running(world: World) -> None:
    async with world.runtime() as runtime:
        run_id, is_in = await slow(world, runtime)
        if is_in:
            await cancel(world, runtime, run_id)
        Door.is_open = True
        await at_rest(runtime, run_id)


async def _cancel_elsewhere(world: World) -> None:
    async with world.runtime() as runtime, world.runtime(is_able=False) as desk:
        run_id, is_in = await slow(world, runtime)
        if is_in:
            await cancel(world, desk, run_id)
            await at_rest(runtime, run_id)
        Door.is_open = True
        await at_rest(runtime, run_id)


async def _cancel_waiting(world: World) -> None:
    async with world.runtime() as runtime:
        run_id = await sent(world, runtime, "ask")
        await at_rest(runtime, run_id)
        await cancel(world, runtime, run_id)
        await at_rest(runtime, await sent(world, runtime, "words"))


async def _cancel_queued(world: World) -> None:
    async with world.runtime() as runtime, world.runtime(is_able=False) as desk:
        run_id, is_in = await slow(world, runtime)
        behind = await sent(world, runtime, "batch")
        if is_in:
            await cancel(world, desk, behind)
        Door.is_open = True
        await at_rest(runtime, run_id)
        await at_rest(runtime, "r-batch")


async def _steer(world: World) -> None:
    async with world.runtime() as runtime:
        await _steered(world, runtime, runtime)


async def _steer_elsewhere(world: World) -> None:
    async with world.runtime() as runtime, world.runtime(is_able=False) as desk:
        await _steered(world, runtime, desk)


async def _steered(world: World, runtime: AgentRuntime, desk: AgentRuntime) -> None:
    run_id, is_in = await slow(world, runtime)
    for note in (f"{NOTE}one", f"{NOTE}two"):
        # No key makes steering idempotent: who was told that it arrived must not repeat it.
        if is_in and not world.has("steered", note) and not world.has("steering", note):
            world.ack("steering", note)
            if (await desk.steer(run_id, note)).is_accepted:
                world.ack("steered", note)
    Door.is_open = True
    await at_rest(runtime, run_id)
    await quiet(runtime.store)


async def _interrupt(world: World) -> None:
    async with world.runtime() as runtime:
        run_id, _ = await slow(world, runtime)
        await sent(world, runtime, "sums")
        await sent(world, runtime, "words", mode="interrupt")
        await at_rest(runtime, run_id)
        Door.is_open = True
        await at_rest(runtime, "r-words")
        await quiet(runtime.store)


async def _interrupt_waiting(world: World) -> None:
    async with world.runtime() as runtime:
        await at_rest(runtime, await sent(world, runtime, "ask"))
        await sent(world, runtime, "words", mode="interrupt")
        await at_rest(runtime, "r-words")
        await quiet(runtime.store)


async def _again(world: World) -> None:
    """The store is away twice when the worker wants to begin: it tries again, later."""
    away = StoreUnavailable(store="store", problem="planned")
    faults = (away, away) if world.generation == 0 else ()
    async with world.runtime(faults=faults) as runtime:
        await at_rest(runtime, await sent(world, runtime, "batch"))


async def _poison(world: World) -> None:
    async with world.runtime(max_attempts=3) as runtime:
        await at_rest(runtime, await sent(world, runtime, "bomb"))


async def _nobody(world: World) -> None:
    async with world.runtime() as runtime:
        await at_rest(runtime, await sent(world, runtime, "words", "nobody"))
        await at_rest(runtime, await sent(world, runtime, "sums"))


async def _delete(world: World) -> None:
    async with world.runtime() as runtime:
        if not world.has("deleting", THREAD):
            await at_rest(runtime, await sent(world, runtime, "batch"))
            world.ack("deleting", THREAD)
        if await runtime.store.load_thread(THREAD) is not None:
            await runtime.store.delete_thread(THREAD)
        world.ack("deleted", THREAD)


async def _drain(world: World) -> None:
    """A run that does not end in time is given back, and another process goes on with it."""
    async with world.runtime(drain_ms=0) as runtime:
        run_id, _ = await slow(world, runtime)
    Door.is_open = True
    async with world.runtime() as runtime:
        await at_rest(runtime, run_id)


async def _deadline(world: World) -> None:
    async with world.runtime() as runtime:
        run_id = await sent(world, runtime, "ask soon")
        async with asyncio.timeout(WAIT_MS / 1000):
            while (await at_rest(runtime, run_id)).status is not RunStatus.DONE:
                await asyncio.sleep(0.005)


async def _hand_over(world: World) -> None:
    async with world.runtime() as runtime:
        await at_rest(runtime, await sent(world, runtime, "hand over", "front"))


async def _approved(world: World) -> None:
    async with world.runtime() as runtime:
        await at_rest(runtime, await sent(world, runtime, "wire", "teller"))
        await decide(world, runtime, runtime, "wire")
        await at_rest(runtime, "r-wire")
        await quiet(runtime.store)


async def _revoked(world: World) -> None:
    """What was asked for is forbidden by the time somebody says yes."""
    async with world.runtime() as runtime:
        await at_rest(runtime, await sent(world, runtime, "wire", "teller"))
        forbidden().touch()
        world.ack("forbidden")
        await decide(world, runtime, runtime, "wire")
        await at_rest(runtime, "r-wire")
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
    "ask-all": Scenario(_ask_all, varies=frozenset({"order", "events"})),
    "ask-both-ways": Scenario(_ask_both_ways, varies=EVERYTHING),
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
