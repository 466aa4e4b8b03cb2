"""Demo data of schedules and triggers: records that start nothing, with a history.

The runs of the history are those of the demo threads. The creator of a record says that it is demo
data: a client's own schedule of such a name is none, and stays.
"""

from collections.abc import Mapping

import msgspec

from awaken.contracts.errors import AlreadyExists
from awaken.contracts.storage.schedules import (
    Creator,
    DeliveryOutcome,
    Firing,
    FiringOutcome,
    FiringWrite,
    HookDelivery,
    Schedule,
    ScheduleSpec,
    ScheduleStatus,
    ScheduleStore,
    Trigger,
    TriggerSpec,
)
from awaken.scheduling.plans import OVERLAP

DEMO = Creator(is_demo=True)


class DemoFiring(msgspec.Struct, frozen=True, kw_only=True):
    """A due time of the past, and the thread whose latest run it has started, if any."""

    due_at: int
    thread_id: str | None = None


class DemoSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that is paused or has ended, and its history."""

    schedule_id: str
    spec: ScheduleSpec
    status: ScheduleStatus
    firings: tuple[DemoFiring, ...]


class DemoDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a sender, and the thread whose latest run it has started, if any."""

    event: str
    thread_id: str | None = None


class DemoTrigger(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger that is paused, and what was delivered to it."""

    trigger_id: str
    spec: TriggerSpec
    deliveries: tuple[DemoDelivery, ...]


class DemoStarters(msgspec.Struct, frozen=True, kw_only=True):
    """The schedules and triggers of the demo data."""

    schedules: tuple[DemoSchedule, ...]
    triggers: tuple[DemoTrigger, ...]


async def write_starters(
    store: ScheduleStore, starters: DemoStarters, run_ids: Mapping[str, str]
) -> None:
    """Write schedules and triggers with their history; what is there already stays as it is.

    Args:
        store: Where they are kept.
        starters: What to write.
        run_ids: The latest run of each thread of the demo data.
    """
    for schedule in starters.schedules:
        await _write_schedule(store, schedule, run_ids)
    for trigger in starters.triggers:
        await _write_trigger(store, trigger, run_ids)


async def remove_starters(store: ScheduleStore, starters: DemoStarters) -> None:
    """Remove the schedules and triggers of the demo data with their history."""
    for schedule in starters.schedules:
        found = await store.find_schedule(schedule.schedule_id)
        if found is not None and found.creator.is_demo:
            await store.delete_schedule(schedule.schedule_id)
    for trigger in starters.triggers:
        known = await store.find_trigger(trigger.trigger_id)
        if known is not None and known.creator.is_demo:
            await store.delete_trigger(trigger.trigger_id)


async def _write_schedule(
    store: ScheduleStore, demo: DemoSchedule, run_ids: Mapping[str, str]
) -> None:
    firings = tuple(_make_firing(demo.schedule_id, it, run_ids) for it in demo.firings)
    blank = Schedule(schedule_id=demo.schedule_id, spec=demo.spec, creator=DEMO, status=demo.status)
    try:
        made = await store.add_schedule(blank)
    except AlreadyExists:
        return
    started = [it.run_id for it in firings if it.run_id is not None]
    changed = msgspec.structs.replace(
        made,
        fired_count=len(started),
        skipped_count=len(firings) - len(started),
        last_run_id=started[-1] if started else None,
        decided_until=max(it.due_at for it in firings),
    )
    await store.write_firing(FiringWrite(schedule=changed, firings=firings))


def _make_firing(schedule_id: str, demo: DemoFiring, run_ids: Mapping[str, str]) -> Firing:
    run_id = None if demo.thread_id is None else run_ids.get(demo.thread_id)
    is_fired = run_id is not None
    return Firing(
        firing_id=f"{schedule_id}:{demo.due_at}",
        schedule_id=schedule_id,
        due_at=demo.due_at,
        outcome=FiringOutcome.FIRED if is_fired else FiringOutcome.SKIPPED,
        reason=None if is_fired else OVERLAP,
        detail=None if is_fired else "the run of the due time before had not ended",
        run_id=run_id,
        thread_id=demo.thread_id if is_fired else None,
    )


async def _write_trigger(
    store: ScheduleStore, demo: DemoTrigger, run_ids: Mapping[str, str]
) -> None:
    try:
        await store.add_trigger(Trigger(trigger_id=demo.trigger_id, spec=demo.spec, creator=DEMO))
    except AlreadyExists:
        return
    for number, it in enumerate(demo.deliveries, 1):
        run_id = None if it.thread_id is None else run_ids.get(it.thread_id)
        is_fired = run_id is not None
        delivery = HookDelivery(
            trigger_id=demo.trigger_id,
            delivery_id=f"{demo.trigger_id}-{number}",
            event=it.event,
            outcome=DeliveryOutcome.FIRED if is_fired else DeliveryOutcome.IGNORED,
            run_id=run_id,
            thread_id=it.thread_id if is_fired else None,
        )
        await store.accept_delivery(delivery, None)
