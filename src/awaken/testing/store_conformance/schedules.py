"""Schedules: leased by the store's clock, each due time decided once, with its dispatch."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec

from awaken.contracts.errors import AlreadyExists, InvalidRecord, UnknownThread
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.storage.queries import FiringQuery, Order, ScheduleQuery, at_cursor
from awaken.contracts.storage.schedule_errors import ScheduleChanged
from awaken.contracts.storage.schedules import (
    Creator,
    Firing,
    FiringOutcome,
    FiringWrite,
    IntervalTiming,
    RunTarget,
    Schedule,
    ScheduleSpec,
    ScheduleStatus,
    ScheduleStore,
)
from awaken.contracts.storage.store import Store

from .writing import LONG_MS, SHORT_MS, elapse, refusal


class StoreWithSchedules(Store, ScheduleStore, Protocol):
    """A store that keeps schedules and triggers as well."""


ScheduleCheck = Callable[[StoreWithSchedules], Coroutine[Any, Any, None]]
SPEC = ScheduleSpec(
    timing=IntervalTiming(every_ms=60_000), target=RunTarget(agent_id="writer", input="Write.")
)
_FAR = 10**14
"""A time that no store's clock has reached."""


def _schedule(schedule_id: str = "daily", wake_at: int | None = 1, **more: Any) -> Schedule:
    return Schedule(schedule_id=schedule_id, spec=SPEC, next_due=wake_at, wake_at=wake_at, **more)


def _firing(schedule: Schedule, due: int = 1, **more: Any) -> Firing:
    fields: dict[str, Any] = {
        "firing_id": f"{schedule.schedule_id}@{due}",
        "schedule_id": schedule.schedule_id,
        "due_at": due,
        "outcome": FiringOutcome.FIRED,
    }
    return Firing(**(fields | more))


def _dispatch(name: str = "d1", thread_id: str = "t1", tenant: str | None = None) -> RunDispatch:
    return RunDispatch(
        dispatch_id=name,
        thread_id=thread_id,
        run_id=f"run-{name}",
        request=RunRequest(thread_id=thread_id, tenant_id=tenant),
    )


def _moved(schedule: Schedule, next_due: int = _FAR) -> Schedule:
    return msgspec.structs.replace(schedule, next_due=next_due, wake_at=next_due, fired_count=1)


async def a_schedule_comes_back_as_it_was(store: StoreWithSchedules) -> None:
    """With the store's times and its first revision; an unknown one is None."""
    creator = Creator(principal_id="ci", tenant_id="ann", user_id="bob")
    made = await store.add_schedule(_schedule(creator=creator))
    assert (made.revision, made.creator) == (1, creator)
    assert abs(made.created_at - await store.now_ms()) < 60_000
    assert await store.find_schedule("daily") == made
    assert await store.find_schedule("other") is None
    planned = msgspec.structs.replace(_schedule("planned"), created_at=made.created_at - 5)
    kept = await store.add_schedule(planned)
    assert (kept.created_at, kept.updated_at >= made.updated_at) == (planned.created_at, True)


async def a_schedule_id_is_used_once(store: StoreWithSchedules) -> None:
    """The second one is refused and changes nothing; a blank id is refused."""
    made = await store.add_schedule(_schedule())
    await refusal(AlreadyExists, store.add_schedule(_schedule(fired_count=7)))
    assert await store.find_schedule("daily") == made
    await refusal(InvalidRecord, store.add_schedule(_schedule(" ")))


async def a_schedule_wakes_only_while_it_is_active(store: StoreWithSchedules) -> None:
    """A paused one with a time to wake is malformed, and an active one without as well."""
    paused = ScheduleStatus.PAUSED
    await refusal(InvalidRecord, store.add_schedule(_schedule(status=paused)))
    await refusal(InvalidRecord, store.add_schedule(_schedule(wake_at=None)))
    assert (await store.find_next_wake())[1] is None


async def a_change_needs_the_revision_that_it_read(store: StoreWithSchedules) -> None:
    """Of two writers that read the same, the second is refused and nothing of it is written."""
    made = await store.add_schedule(_schedule())
    first = await store.save_schedule(msgspec.structs.replace(made, skipped_count=1))
    assert first.revision == made.revision + 1
    late = store.save_schedule(msgspec.structs.replace(made, skipped_count=2))
    await refusal(ScheduleChanged, late)
    assert await store.find_schedule("daily") == first
    await refusal(ScheduleChanged, store.save_schedule(_schedule("gone")))


async def schedules_are_listed_by_creation(store: StoreWithSchedules) -> None:
    """In pages by keys, in both directions, filtered by tenant, status and agent."""
    for number in range(5):
        owner = Creator(tenant_id="ann" if number % 2 else None)
        await store.add_schedule(_schedule(f"s{number}", creator=owner))
    listed: list[str] = []
    query = ScheduleQuery(limit=2)
    while True:
        page = await store.list_schedules(query)
        listed += [it.schedule_id for it in page.items]
        if page.next_cursor is None:
            break
        query = at_cursor(query, page.next_cursor)
    assert sorted(listed) == [f"s{number}" for number in range(5)]
    down = await store.list_schedules(ScheduleQuery(order=Order.DESC, with_total=True))
    assert [it.schedule_id for it in down.items] == listed[::-1]
    assert down.total == 5
    for wanted, count in (
        (ScheduleQuery(tenant_id="ann"), 2),
        (ScheduleQuery(status="paused"), 0),
        (ScheduleQuery(status="active", agent_id="writer"), 5),
        (ScheduleQuery(agent_id="other"), 0),
    ):
        assert len((await store.list_schedules(wanted)).items) == count


async def a_due_schedule_is_leased_once(store: StoreWithSchedules) -> None:
    """While a lease lasts, no other process gets the schedule; what is not due is not leased."""
    await store.add_schedule(_schedule("due"))
    await store.add_schedule(_schedule("later", _FAR))
    now, wake = await store.find_next_wake()
    assert wake == 1 <= now
    claimed = await store.claim_schedules("token-1", LONG_MS)
    assert [it.schedule_id for it in claimed.items] == ["due"]
    assert abs(claimed.now - now) < 60_000
    assert (await store.claim_schedules("token-2", LONG_MS)).items == ()


async def many_processes_share_what_is_due(store: StoreWithSchedules) -> None:
    """Concurrent claims never lease one schedule twice."""
    for number in range(30):
        await store.add_schedule(_schedule(f"s{number}"))
    claims = [store.claim_schedules(f"token-{it}", LONG_MS, limit=10) for it in range(6)]
    claimed = await asyncio.gather(*claims)
    leased = [it.schedule_id for one in claimed for it in one.items]
    assert len(leased) == len(set(leased)) == 30


async def an_expired_lease_on_a_schedule_is_taken_over(store: StoreWithSchedules) -> None:
    """By the store's clock; the first holder then writes nothing."""
    made = await store.add_schedule(_schedule())
    await store.claim_schedules("token-1", SHORT_MS)
    await elapse(store, SHORT_MS + 1)
    assert len((await store.claim_schedules("token-2", LONG_MS)).items) == 1
    late = FiringWrite(
        schedule=_moved(made), claim_token="token-1", firings=(_firing(made),), dispatch=_dispatch()
    )
    assert not await store.write_firing(late)
    assert await store.find_dispatch("d1") is None
    assert await store.write_firing(msgspec.structs.replace(late, claim_token="token-2"))


async def a_firing_is_written_whole(store: StoreWithSchedules) -> None:
    """The firing, its dispatch and the moved schedule appear together; the lease ends."""
    made = await store.add_schedule(_schedule())
    await store.claim_schedules("token", LONG_MS)
    write = FiringWrite(
        schedule=_moved(made, 5),
        claim_token="token",
        firings=(_firing(made, run_id="run-d1"),),
        dispatch=_dispatch(),
    )
    assert await store.write_firing(write)
    stored = await store.find_schedule("daily")
    (firing,) = (await store.list_firings(FiringQuery(schedule_id="daily"))).items
    assert stored is not None
    assert (stored.next_due, stored.fired_count, stored.last) == (5, 1, firing)
    assert firing.run_id == "run-d1"
    assert abs(firing.fired_at - await store.now_ms()) < 60_000
    dispatch = await store.find_dispatch("d1")
    assert dispatch is not None
    assert dispatch.status is DispatchStatus.QUEUED
    assert len((await store.claim_schedules("next", LONG_MS)).items) == 1


async def a_due_time_is_decided_once(store: StoreWithSchedules) -> None:
    """A repeat, an old revision and a firing of the same due time change nothing."""
    made = await store.add_schedule(_schedule())
    await store.claim_schedules("token", LONG_MS)
    write = FiringWrite(
        schedule=_moved(made, 5),
        claim_token="token",
        firings=(_firing(made),),
        dispatch=_dispatch(),
    )
    assert await store.write_firing(write)
    stored = await store.find_schedule("daily")
    assert stored is not None
    again = msgspec.structs.replace(write, dispatch=_dispatch("d2", "t2"))
    assert not await store.write_firing(again)
    await store.claim_schedules("token", LONG_MS)
    assert not await store.write_firing(msgspec.structs.replace(again, schedule=stored))
    assert await store.find_schedule("daily") == stored
    assert await store.find_dispatch("d2") is None
    assert len((await store.list_firings(FiringQuery(schedule_id="daily"))).items) == 1


async def a_firing_that_cannot_be_queued_changes_nothing(store: StoreWithSchedules) -> None:
    """A thread of another tenant refuses the dispatch, and the due time stays undecided."""
    await store.save_thread(Thread(id="t1"))
    made = await store.add_schedule(_schedule())
    await store.claim_schedules("token", LONG_MS)
    write = FiringWrite(
        schedule=_moved(made),
        claim_token="token",
        firings=(_firing(made),),
        dispatch=_dispatch(tenant="ann"),
    )
    await refusal(UnknownThread, store.write_firing(write))
    assert await store.find_schedule("daily") == made
    assert (await store.list_firings(FiringQuery(schedule_id="daily"))).items == ()


async def a_change_ends_the_lease(store: StoreWithSchedules) -> None:
    """What the holder decided on the old schedule is not written."""
    made = await store.add_schedule(_schedule())
    await store.claim_schedules("token", LONG_MS)
    await store.save_schedule(msgspec.structs.replace(made, skipped_count=3))
    late = FiringWrite(schedule=_moved(made), claim_token="token", firings=(_firing(made),))
    assert not await store.write_firing(late)
    assert len((await store.claim_schedules("other", LONG_MS)).items) == 1


async def only_a_judge_fires_for_callers(store: StoreWithSchedules) -> None:
    """A process that knows no callers gets only the schedules of the host's own code."""
    await store.add_schedule(_schedule("theirs", creator=Creator(principal_id="ci")))
    assert (await store.find_next_wake(is_judge=False))[1] is None
    assert (await store.find_next_wake())[1] == 1
    own = await store.add_schedule(_schedule("own", 2))
    assert (await store.find_next_wake(is_judge=False))[1] == 2
    claimed = await store.claim_schedules("token", LONG_MS, is_judge=False)
    assert [it.schedule_id for it in claimed.items] == ["own"]
    assert len((await store.claim_schedules("judge", LONG_MS)).items) == 1
    # What a caller takes over is the caller's from then on.
    await store.save_schedule(msgspec.structs.replace(own, creator=Creator(principal_id="ci")))
    assert (await store.find_next_wake(is_judge=False))[1] is None


async def a_deleted_schedule_leaves_nothing(store: StoreWithSchedules) -> None:
    """Its history goes with it, its holder writes nothing, and its id is free again."""
    made = await store.add_schedule(_schedule())
    await store.write_firing(FiringWrite(schedule=_moved(made, 1), firings=(_firing(made),)))
    claimed = await store.claim_schedules("token", LONG_MS)
    assert await store.delete_schedule("daily")
    assert not await store.delete_schedule("daily")
    late = FiringWrite(schedule=claimed.items[0], claim_token="token", firings=())
    assert not await store.write_firing(late)
    assert (await store.list_firings(FiringQuery(schedule_id="daily"))).items == ()
    await store.add_schedule(_schedule())


async def firings_are_listed_and_purged(store: StoreWithSchedules) -> None:
    """By due time in pages, by outcome; old ones are removed, a few at a time."""
    schedule = await store.add_schedule(_schedule())
    for due in range(1, 6):
        outcome = FiringOutcome.SKIPPED if due % 2 else FiringOutcome.FIRED
        write = FiringWrite(schedule=schedule, firings=(_firing(schedule, due, outcome=outcome),))
        assert await store.write_firing(write)
        found = await store.find_schedule("daily")
        assert found is not None
        schedule = found
    first = FiringQuery(schedule_id="daily", limit=3, order=Order.DESC)
    page = await store.list_firings(first)
    assert [it.due_at for it in page.items] == [5, 4, 3]
    rest = await store.list_firings(at_cursor(first, page.next_cursor or ""))
    assert [it.due_at for it in rest.items] == [2, 1]
    skipped = await store.list_firings(FiringQuery(schedule_id="daily", outcome="skipped"))
    assert [it.due_at for it in skipped.items] == [1, 3, 5]
    assert await store.purge_firings(0, 0, 100) == 0
    assert await store.purge_firings(_FAR, 0, 3) == 3
    assert await store.purge_firings(_FAR, 0, 3) == 2
    assert await store.find_schedule("daily") == schedule


CHECKS: tuple[ScheduleCheck, ...] = (
    a_schedule_comes_back_as_it_was,
    a_schedule_id_is_used_once,
    a_schedule_wakes_only_while_it_is_active,
    a_change_needs_the_revision_that_it_read,
    schedules_are_listed_by_creation,
    a_due_schedule_is_leased_once,
    many_processes_share_what_is_due,
    an_expired_lease_on_a_schedule_is_taken_over,
    a_firing_is_written_whole,
    a_due_time_is_decided_once,
    a_firing_that_cannot_be_queued_changes_nothing,
    a_change_ends_the_lease,
    only_a_judge_fires_for_callers,
    a_deleted_schedule_leaves_nothing,
    firings_are_listed_and_purged,
)
