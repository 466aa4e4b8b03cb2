"""Claims at the end of their lease: late writers race those who take their threads back."""

import asyncio
from collections.abc import Awaitable, Callable

from awaken.contracts.errors import (
    IllegalTransition,
    LeaseLost,
    ThreadClaimed,
)
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.storage.dispatch import DispatchStatus, Release, RunDispatch

from .building import commit, dispatch, run, said
from .schedule_world import LEASE_MS, World

STALE = (LeaseLost, ThreadClaimed, IllegalTransition)

LEASE_S = LEASE_MS / 1000


async def late_commit(world: World) -> None:
    """A holder whose lease ran out commits while others take the thread: one of them has it."""
    truth = world.truth
    held = await _claimed(world)
    await truth.commit(
        commit("t", 0, fencing_token="first", run=run("t", name="d"), messages=(said("m"),))
    )
    await asyncio.sleep(LEASE_S)
    late = commit("t", 1, fencing_token="first", messages=(said("late"),), commit_id="late")
    outcome, taken = await asyncio.gather(
        _tried(world, lambda: truth.commit(late)), _taken_over(world)
    )
    is_there = await truth.find_commit("late", "t") is not None
    assert is_there == outcome, "it was told otherwise than it is"
    if taken is not None:
        assert taken.attempt_count == held.attempt_count + 1
        again = commit("t", 1 + is_there, fencing_token="first", commit_id="again")
        assert not await _tried(world, lambda: truth.commit(again)), "a stale token wrote"
        await _ended_by(world, taken)


async def late_end(world: World) -> None:
    """Every way to end a claim is refused once somebody else has the thread."""
    truth = world.truth
    held = await _claimed(world)
    await asyncio.sleep(LEASE_S)
    ways: list[Callable[[], Awaitable[object]]] = [
        lambda: truth.release(held.dispatch_id, "first"),
        lambda: truth.requeue(held.dispatch_id, "first"),
        lambda: truth.give_up_claim("t", "first"),
        lambda: truth.release(held.dispatch_id, "first", Release(status=_DEAD, error="late")),
    ]
    way = world.chance.choice(ways[:3])
    is_done, taken = await asyncio.gather(_tried(world, way), _taken_over(world))
    if taken is None:
        assert is_done, "nobody has it"
        return
    for stale in ways:
        assert not await _tried(world, stale), "a stale token ended a claim"
    (news,) = truth.lease_keeper().extend(["first"], LEASE_MS)
    assert not news.is_held, "a stale token extended a lease"
    found = await truth.find_dispatch(held.dispatch_id)
    assert found is not None
    assert (found.status, found.claim_token) == (DispatchStatus.CLAIMED, "second")
    await _ended_by(world, taken)


async def two_claimers(world: World) -> None:
    """Claimers race for three threads of two dispatches each: never two of one thread."""
    truth = world.truth
    for thread in ("t1", "t2", "t3"):
        for name in ("x", "y"):
            await truth.enqueue(dispatch(f"{thread}-{name}", thread))
    done: list[str] = []

    async def work(name: str) -> None:
        for number in range(12):
            await asyncio.sleep(world.chance.choice((0, 0, 0.01)))
            for it in await truth.claim(name, f"{name}{number}", LEASE_MS, limit=2):
                await asyncio.sleep(world.chance.choice((0, 0.01)))
                await truth.release(it.dispatch_id, it.claim_token or "")
                done.append(it.dispatch_id)

    await asyncio.gather(work("a"), work("b"), work("c"))
    assert sorted(done) == sorted(f"{t}-{n}" for t in ("t1", "t2", "t3") for n in ("x", "y"))
    for thread in ("t1", "t2", "t3"):
        assert [it for it in done if it.startswith(thread)] == [f"{thread}-x", f"{thread}-y"]


_DEAD, _DONE = DispatchStatus.DEAD_LETTER, RunStatus.DONE


async def _claimed(world: World) -> RunDispatch:
    await world.truth.enqueue(dispatch("d", "t"))
    (held,) = await world.truth.claim("a", "first", LEASE_MS)
    return held


async def _taken_over(world: World) -> RunDispatch | None:
    """Two sweepers and a claimer go for the thread; None when it is not to be had."""

    async def sweep() -> int:
        await asyncio.sleep(world.chance.choice((0, 0.001)))
        return len(await world.truth.reclaim())

    back = await asyncio.gather(sweep(), sweep())
    assert sum(back) <= 1, "it was taken back twice"
    taken = await world.truth.claim("b", "second", LEASE_MS)
    return taken[0] if taken else None


async def _tried(world: World, work: Callable[[], Awaitable[object]]) -> bool:
    await asyncio.sleep(world.chance.choice((0, 0.001)))
    try:
        await work()
    except STALE:
        return False
    return True


async def _ended_by(world: World, taken: RunDispatch) -> None:
    """The new holder brings it to its end."""
    truth = world.truth
    thread = await truth.load_thread("t")
    version = 0 if thread is None else thread.version
    opened = await truth.load_run("t-d")
    if opened is not None:
        over = commit(
            "t",
            version,
            fencing_token="second",
            run=run("t", status=_DONE, name="d"),
            release=Release(),
            commit_id="over",
        )
        await truth.commit(over)
    else:
        await truth.release(taken.dispatch_id, "second")
