"""The rules by which every store changes schedules and triggers."""

import msgspec

from awaken.contracts.errors import InvalidRecord
from awaken.contracts.storage.schedules import (
    DeliveryOutcome,
    FiringWrite,
    HookDelivery,
    Schedule,
    ScheduleStatus,
    Trigger,
)

LEASE_MS_MAX = 10 * 60 * 1000
"""The longest lease on a schedule; one that ends later is from another start of the clock."""


def create_schedule(schedule: Schedule, now: int) -> Schedule:
    """Return a new schedule as it is stored.

    Raises:
        InvalidRecord: Its id is blank, or it has a time to wake although it is not active.
    """
    _check_schedule(schedule)
    # Its first due time was counted from the time of creation, and so are those after it.
    created_at = schedule.created_at or now
    return msgspec.structs.replace(schedule, revision=1, created_at=created_at, updated_at=now)


def replace_schedule(schedule: Schedule, now: int) -> Schedule:
    """Return a changed schedule as it is stored.

    Raises:
        InvalidRecord: Its id is blank, or it has a time to wake although it is not active.
    """
    _check_schedule(schedule)
    return msgspec.structs.replace(schedule, revision=schedule.revision + 1, updated_at=now)


def may_write_firing(write: FiringWrite, revision: int, claim_token: str | None) -> bool:
    """Whether a firing was decided on the schedule as it is stored, by the holder of its lease.

    A firing by hand needs no lease: only the revision decides.
    """
    is_holder = write.claim_token is None or write.claim_token == claim_token
    return write.schedule.revision == revision and is_holder


def is_leased(lease_until: int | None, now: int) -> bool:
    """Whether a lease lasts; `now` is of the clock of leases."""
    return lease_until is not None and now < lease_until <= now + LEASE_MS_MAX


def create_trigger(trigger: Trigger, now: int) -> Trigger:
    """Return a new trigger as it is stored.

    Raises:
        InvalidRecord: Its id is blank.
    """
    if not trigger.trigger_id.strip():
        raise InvalidRecord(what="Trigger", problem="its id is blank")
    return msgspec.structs.replace(trigger, revision=1, created_at=now, updated_at=now)


def replace_trigger(trigger: Trigger, stored: Trigger, now: int) -> Trigger:
    """Return a changed trigger as it is stored; what was delivered meanwhile is kept."""
    return msgspec.structs.replace(
        trigger,
        revision=stored.revision + 1,
        last=stored.last,
        fired_count=stored.fired_count,
        updated_at=now,
    )


def is_repeat(known: HookDelivery | None) -> bool:
    """Whether a delivery was decided before; one that was refused is decided again."""
    return known is not None and known.outcome is not DeliveryOutcome.REFUSED


def add_delivery(trigger: Trigger, delivery: HookDelivery) -> Trigger:
    """Return a trigger after a delivery; its revision stays: no person has changed it."""
    has_acted = delivery.outcome in (DeliveryOutcome.FIRED, DeliveryOutcome.DELIVERED)
    fired = trigger.fired_count + has_acted
    return msgspec.structs.replace(trigger, last=delivery, fired_count=fired)


def _check_schedule(schedule: Schedule) -> None:
    if not schedule.schedule_id.strip():
        raise InvalidRecord(what="Schedule", problem="its id is blank")
    if (schedule.status is ScheduleStatus.ACTIVE) != (schedule.wake_at is not None):
        problem = "it has a time to wake exactly while it is active"
        raise InvalidRecord(what=f"Schedule '{schedule.schedule_id}'", problem=problem)
