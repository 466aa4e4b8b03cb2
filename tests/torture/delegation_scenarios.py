"""What clients do with agents that have others work for them, so that any of them can be killed."""

import asyncio

from awaken import AgentRuntime
from awaken.contracts.lifecycle import RunStatus

from .agents import Door
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
)
from .delegation_agents import OTHER, READER
from .doomed import passing
from .runtime_worlds import SHUT, World, quiet

BOSS = "boss"
DECIDED, CANCELLED, HELD = "decided", "cancelled", "held"
"""Points of clients."""


async def _done(world: World, order: str) -> None:
    """Have an order done, until nothing of it is left to do anywhere."""
    async with world.runtime() as runtime:
        await at_rest(runtime, await sent(world, runtime, order, BOSS))
        await quiet(runtime.store)


async def _delegate(world: World) -> None:
    await _done(world, "delegate")


async def _foreground(world: World) -> None:
    """The parent has no dispatch: it is a caller's own."""
    async with world.runtime() as runtime:
        if await record(runtime, "r-delegate") is None:
            await runtime.run(BOSS, "delegate", thread_id=THREAD, run_id_hint="r-delegate")
        await at_rest(runtime, "r-delegate")
        world.ack("submitted", "r-delegate")
        await quiet(runtime.store)


async def _slowly(world: World) -> None:
    await _done(world, "slowly")


async def _nested_slowly(world: World) -> None:
    await _done(world, "nested slowly")


async def _slow_task(world: World) -> None:
    await _done(world, "slow task")


async def _delegates(world: World) -> None:
    await _done(world, "delegates")


async def _nested(world: World) -> None:
    await _done(world, "nested")


async def _tasks(world: World) -> None:
    await _done(world, "tasks")


async def _tell(world: World) -> None:
    await _done(world, "tell")


async def _tell_busy(world: World) -> None:
    """The message comes while the other thread's run is in a tool."""
    await _tell_while_busy(world, READER)


async def _tell_past(world: World) -> None:
    """The message is for another agent than the one that the thread's run is of."""
    await _tell_while_busy(world, "helper")


async def _tell_while_busy(world: World, agent: str) -> None:
    async with world.runtime() as runtime:
        Door.is_open, Door.visitors = False, 0
        receipt = await runtime.submit(
            agent, "slow", thread_id=OTHER, dedupe_key="slow", run_id_hint="r-slow"
        )
        world.ack("submitted", receipt.run_id)
        await is_busy(runtime, receipt.run_id)
        await at_rest(runtime, await sent(world, runtime, "tell", BOSS))
        Door.is_open = True
        await quiet(runtime.store)


async def _tell_waiting(world: World) -> None:
    """The message is held by a run of another agent that waits for a decision."""
    async with world.runtime() as runtime:
        receipt = await runtime.submit(
            "helper", "ask", thread_id=OTHER, dedupe_key="ask", run_id_hint="r-ask"
        )
        world.ack("submitted", receipt.run_id)
        await at_rest(runtime, receipt.run_id)
        await at_rest(runtime, await sent(world, runtime, "tell", BOSS))
        async with asyncio.timeout(WAIT_MS / 1000):
            while await runtime.store.list_outbox(limit=1):
                await asyncio.sleep(0.002)
        passing(HELD)
        await _decide_below(world, runtime)
        await quiet(runtime.store)


async def _ask_parent(world: World) -> None:
    """The delegate's question is answered where its caller waits."""
    async with world.runtime() as runtime:
        await at_rest(runtime, await sent(world, runtime, "question", BOSS))
        await decide(world, runtime, runtime, "first")
        await at_rest(runtime, "r-question")
        await quiet(runtime.store)


async def _ask_child(world: World) -> None:
    """The delegate's question is answered in its own thread, by somebody who executes nothing."""
    async with world.runtime() as runtime, world.runtime(is_able=False) as desk:
        await at_rest(runtime, await sent(world, runtime, "question", BOSS))
        await _decide_below(world, desk)
        await quiet(runtime.store)


async def _ask_later(world: World) -> None:
    """Nobody executes anything when the delegate's question is answered."""
    async with world.runtime() as runtime:
        await at_rest(runtime, await sent(world, runtime, "question", BOSS))
    async with world.runtime(is_able=False) as desk:
        await _decide_below(world, desk)
        passing(DECIDED)
    async with world.runtime() as runtime:
        await quiet(runtime.store)


async def _decide_below(world: World, desk: AgentRuntime) -> None:
    for ticket in await desk.tickets():
        if ticket.thread_id != THREAD:
            await desk.decide(ticket.ticket_id, result="yes to first")
            world.ack("decided", ticket.ticket_id)


async def _cancel_parent(world: World) -> None:
    async with world.runtime() as runtime:
        await _stopped(world, runtime, runtime, "slowly")


async def _cancel_elsewhere(world: World) -> None:
    async with world.runtime() as runtime, world.runtime(is_able=False) as desk:
        await _stopped(world, runtime, desk, "slowly")


async def _cancel_owner(world: World) -> None:
    """A run that waits for its task is cancelled, and the task with it."""
    async with world.runtime() as runtime:
        await _stopped(world, runtime, runtime, "slow task")


async def _stopped(world: World, runtime: AgentRuntime, desk: AgentRuntime, order: str) -> None:
    """Cancel a run while what it has started is behind a door that nobody opens any more."""
    Door.is_open, Door.visitors = False, 0
    run_id = await sent(world, runtime, order, BOSS)
    if await is_busy(runtime, run_id):
        await cancel(world, desk, run_id)
        if world.has("cancelled", run_id):
            world.ack(SHUT)
            passing(CANCELLED)
    Door.is_open = not world.has(SHUT)
    await runtime.wait(run_id, timeout_ms=WAIT_MS)
    await quiet(runtime.store)
    found = await record(runtime, run_id)
    assert found is not None
    assert found.status is RunStatus.DONE


async def _cancel_asking(world: World) -> None:
    """Caller and delegate both wait when the caller is cancelled."""
    async with world.runtime() as runtime:
        await at_rest(runtime, await sent(world, runtime, "question", BOSS))
        await cancel(world, runtime, "r-question")
        await quiet(runtime.store)


async def _fatally(world: World) -> None:
    """The delegate kills its process, until nobody tries again."""
    async with world.runtime(max_attempts=2) as runtime:
        await at_rest(runtime, await sent(world, runtime, "fatally", BOSS))
        await quiet(runtime.store)


GIVEN_UP = EVERYTHING | {"dead letters"}
"""Whoever comes first takes up the delegate or its caller: it is given up with it, or alone."""

SCENARIOS: dict[str, Scenario] = {
    "delegate": Scenario(_delegate),
    "delegate-foreground": Scenario(_foreground),
    "delegates": Scenario(_delegates),
    "delegate-nested": Scenario(_nested),
    "delegate-slowly": Scenario(_slowly),
    "delegate-nested-slowly": Scenario(_nested_slowly),
    "delegate-asks-parent": Scenario(_ask_parent),
    "delegate-asks": Scenario(_ask_child),
    "delegate-asks-later": Scenario(_ask_later),
    "tasks": Scenario(_tasks, varies=EVERYTHING),
    "slow-task": Scenario(_slow_task, varies=EVERYTHING),
    "tell": Scenario(_tell),
    "tell-busy": Scenario(_tell_busy, varies=EVERYTHING),
    "tell-past": Scenario(_tell_past, varies=EVERYTHING),
    "tell-waiting": Scenario(_tell_waiting, varies=EVERYTHING),
    "cancel-parent": Scenario(_cancel_parent, varies=EVERYTHING),
    "cancel-parent-elsewhere": Scenario(_cancel_elsewhere, varies=EVERYTHING),
    "cancel-owner": Scenario(_cancel_owner, varies=EVERYTHING),
    "delegate-fatally": Scenario(_fatally, varies=GIVEN_UP, crashes=4, attempts=8),
    "cancel-asking": Scenario(_cancel_asking, varies=EVERYTHING),
}
