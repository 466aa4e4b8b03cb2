"""A process that dies before it knows what the other side has begun: nothing is begun twice."""

import asyncio
from pathlib import Path
from typing import Any

from awaken import AgentRuntime, Cancelled

from .delegating import WAIT_S, Door, ended, nothing_ordered
from .mortal import PROMPT, Mortal, dying, on_shared_stores
from .remoting import FakeBackend, behind, remote_runtime, said


def process(backend: FakeBackend, store: Any) -> AgentRuntime:
    return remote_runtime(backend, store, mailbox=PROMPT)


@on_shared_stores
def test_what_a_turn_was_given_has_the_same_ids_whoever_executes_it(
    stores_of: Any, tmp_path: Path
) -> None:
    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        door, before, after = Door(), FakeBackend(), FakeBackend(said("found again"))
        before.turns = [behind(door, saves=None)]
        async with dying(process(before, Mortal(first))) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            await door.opened()
        async with process(after, second) as rt:
            await ended(rt, handle.run_id)
        given = [[it.id for it in asked.new_messages] for asked in (*before.roots, *after.roots)]
        assert given[0] == given[1]
        assert all(given[0])

    asyncio.run(scenario())


@on_shared_stores
def test_a_run_that_is_ended_by_force_is_stopped_there_also_when_nothing_was_kept_of_it(
    stores_of: Any, tmp_path: Path
) -> None:
    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        door, after, mortal = Door(), FakeBackend(), Mortal(first, leases_lapse=False)
        async with dying(process(FakeBackend(behind(door, saves=None)), mortal)) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            await door.opened()
        async with asyncio.timeout(WAIT_S), process(after, second) as rt:
            assert await rt.cancel(handle.run_id)
            mortal.let_leases_lapse()
            done = await ended(rt, handle.run_id)
            assert done.termination == Cancelled(cause="user")
            await nothing_ordered(rt)
        assert [it.run_identity.run_id for it in after.aborted] == [handle.run_id]
        assert after.roots == []

    asyncio.run(scenario())
