"""What to do with the due times of a schedule that have come. Pure."""

import hashlib
from itertools import takewhile

import msgspec

from awaken.contracts.record import Record
from awaken.contracts.storage.schedules import (
    Firing,
    FiringOutcome,
    OverlapPolicy,
    Schedule,
)

from .due_times import find_next_due, iterate_due

LATE_MS = 60_000
"""A due time that is older than this was missed, unless its schedule let it wait."""
SCANNED_MAX = 10_000
"""How many due times one look decides at most; the next look goes on behind them."""
MISSED, OVERLAP, CHANGED = "missed", "overlap", "changed"
_UNFIRED = "No process fired it in time."
_SUPERSEDED = "A later one took its place: the previous run had not ended, or no process fired it."


class FiringPlan(Record, frozen=True, kw_only=True):
    """What one look at a schedule decides."""

    skipped: Firing | None = None
    """The missed due times, as one range."""
    due: int | None = None
    """The due time that fires now, unless the previous run forbids it."""
    following: int | None = None
    """The due time after all of these; None: there is none."""


def plan_firing(schedule: Schedule, now: int) -> FiringPlan:
    """Decide which of the due times up to now are missed, and which one fires.

    Of very many, one look only skips the oldest: the newest are known once all are counted.
    """
    due, wakes, following, is_whole = _list_due(schedule, now)
    # A due time that waits for the previous run has been missed by no process.
    may_wait = schedule.spec.overlap is OverlapPolicy.QUEUE
    kept = max(schedule.spec.catch_up, may_wait)
    # Due times wake in their order: those that are late come first.
    late = sum(wake + LATE_MS < now for wake in wakes)
    missed, rest = due[: max(0, late - kept)], due[max(0, late - kept) :]
    skipped = _skip(schedule, missed, MISSED, _SUPERSEDED if may_wait else _UNFIRED)
    if not is_whole:
        return FiringPlan(skipped=skipped, following=rest[0] if rest else following)
    if not rest:
        return FiringPlan(skipped=skipped, following=following)
    return FiringPlan(
        skipped=skipped, due=rest[0], following=rest[1] if len(rest) > 1 else following
    )


def _list_due(schedule: Schedule, now: int) -> tuple[list[int], list[int], int | None, bool]:
    """Return due times that have come and when each wakes, the one after them, and if it is all."""
    found, due, wakes = schedule.next_due, list[int](), list[int]()
    if found is None:
        return due, wakes, None, True
    later = iterate_due(schedule.spec, found, schedule.created_at)
    while found is not None:
        after = next(later, None)
        wake = _delay(schedule, found, after)
        if wake > now:
            break
        if len(due) >= SCANNED_MAX:
            return due, wakes, found, False
        due.append(found)
        wakes.append(wake)
        found = after
    return due, wakes, found, True


def skip_overdue(schedule: Schedule, now: int, reason: str) -> Firing | None:
    """Return the firing that skips all due times up to now, because a person changed the schedule.

    None if there are none.
    """
    if schedule.next_due is None or schedule.next_due > now:
        return None
    after = iterate_due(schedule.spec, schedule.next_due, schedule.created_at)
    due = [schedule.next_due, *takewhile(lambda it: it <= now, after)]
    return _skip(schedule, due, reason, "A person changed the schedule before it was fired.")


def _skip(schedule: Schedule, due: list[int], reason: str, detail: str) -> Firing | None:
    if not due:
        return None
    return Firing(
        firing_id=name_firing(schedule.schedule_id, due[0]),
        schedule_id=schedule.schedule_id,
        due_at=due[0],
        last_due_at=due[-1] if len(due) > 1 else None,
        count=len(due),
        outcome=FiringOutcome.SKIPPED,
        reason=reason,
        detail=detail,
    )


def count_firing(schedule: Schedule, firing: Firing) -> Schedule:
    """Return a schedule with a firing counted."""
    if not firing.is_manual:
        until = max(schedule.decided_until, firing.last_due_at or firing.due_at)
        schedule = msgspec.structs.replace(schedule, decided_until=until)
    match firing.outcome:
        case FiringOutcome.FIRED:
            fired, run_id = schedule.fired_count + 1, firing.run_id
            return msgspec.structs.replace(schedule, fired_count=fired, last_run_id=run_id)
        case FiringOutcome.DELIVERED:
            # The run that got it is not the schedule's: no due time waits for its end.
            return msgspec.structs.replace(schedule, fired_count=schedule.fired_count + 1)
        case _:
            skipped = schedule.skipped_count + firing.count
            return msgspec.structs.replace(schedule, skipped_count=skipped)


def find_wake(schedule: Schedule, due: int) -> int:
    """Return when a due time fires: its jitter depends only on it and on the schedule.

    It fires before the next one is due, however long the jitter may be: so they fire in order, and
    none is missed because it waited for an earlier one.
    """
    if not schedule.spec.jitter_ms:
        return due
    return _delay(schedule, due, find_next_due(schedule.spec, due, schedule.created_at))


def _delay(schedule: Schedule, due: int, after: int | None) -> int:
    jitter = schedule.spec.jitter_ms
    if after is not None:
        jitter = min(jitter, after - due - 1)
    if not jitter:
        return due
    data = f"{schedule.schedule_id}\0{due}".encode()
    number = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())
    return due + number % (jitter + 1)


def name_firing(schedule_id: str, due: int) -> str:
    """Return the id of the firing that decides a due time."""
    return f"{schedule_id}@{due}"
