"""Due times: which instants a timing names, in any zone and over every change of its clock.

A cron expression that names hours speaks of local times. A local time that a change of the clock
skips is due once, at the change; one that the change repeats is due once, the first time. An
expression with `*` for the hour names no hour: it is due at every passing of its minutes, so that
"every five minutes" neither pauses nor repeats when clocks change.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from heapq import heappop, heappush
from itertools import takewhile
from zoneinfo import ZoneInfo

from awaken.contracts.errors import InvalidInput
from awaken.contracts.storage.schedules import (
    CronTiming,
    IntervalTiming,
    OneShotTiming,
    ScheduleSpec,
    Timing,
)

INTERVAL_MIN_MS = 10_000
INTERVAL_MAX_MS = 366 * 24 * 60 * 60 * 1000
CRON_CHARS_MAX = 200
CATCH_UP_MAX = 100
DESCRIPTION_CHARS_MAX = 2_000
JITTER_MAX_MS = 60 * 60 * 1000
TIME_MAX_MS = 32_503_680_000_000
"""The year 3000: no schedule looks further, and no arithmetic on dates overflows before it."""
_EVERY_HOUR = frozenset({"*", "*/1", "0-23", "0-23/1"})
"""Fields that name no hour."""
REPEATED_MAX = timedelta(hours=3)
"""How far back a clock is set at most."""
_SECOND = timedelta(seconds=1)


def check_spec(spec: ScheduleSpec, now: int) -> None:
    """Check that a schedule can have due times, and not more of them than a store bears.

    Raises:
        InvalidInput: A field is out of range, or the timing names no time after now.
    """
    check_description(spec.description)
    _check_timing(spec.timing, now)
    for name, value, low, high in (
        ("catch_up", spec.catch_up, 0, CATCH_UP_MAX),
        ("jitter_ms", spec.jitter_ms, 0, JITTER_MAX_MS),
        ("max_count", spec.max_count, 1, 2**53),
        ("end_at", spec.end_at, now, TIME_MAX_MS),
    ):
        if value is not None and not low <= value <= high:
            raise InvalidInput(what=name, problem=f"it must be between {low} and {high}")
    if isinstance(spec.timing, IntervalTiming) and spec.jitter_ms > spec.timing.every_ms:
        raise InvalidInput(what="jitter_ms", problem="it is longer than the interval")
    if find_next_due(spec, now, now) is None:
        raise InvalidInput(what="timing", problem="it names no time from now on")


def check_description(text: str) -> None:
    """Refuse a description that lists could not carry.

    Raises:
        InvalidInput: It is too long.
    """
    if len(text) > DESCRIPTION_CHARS_MAX:
        problem = f"it may have {DESCRIPTION_CHARS_MAX} characters"
        raise InvalidInput(what="description", problem=problem)


def find_next_due(spec: ScheduleSpec, after: int, created_at: int) -> int | None:
    """Return the first due time after a time, or None if there is none."""
    return next(iterate_due(spec, after, created_at), None)


def iterate_due(spec: ScheduleSpec, after: int, created_at: int) -> Iterator[int]:
    """Return the due times after a time, in order, up to the end of the schedule."""
    end = TIME_MAX_MS if spec.end_at is None else min(spec.end_at, TIME_MAX_MS)
    match spec.timing:
        case CronTiming(expression=expression, zone=zone):
            found = _iterate_cron(expression, find_zone(zone), after)
        case IntervalTiming(every_ms=every, start_at=start):
            found = _iterate_interval(every, created_at if start is None else start, after)
        case OneShotTiming(at=at):
            found = iter((at,) if at > after else ())
    return takewhile(lambda due: due <= end, found)


@lru_cache(maxsize=256)
def find_zone(name: str) -> ZoneInfo:
    """Return an IANA zone.

    Raises:
        InvalidInput: There is none of that name.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        problem = "no such IANA zone; write one such as Europe/Berlin"
        raise InvalidInput(what=f"zone {name!r:.80}", problem=problem) from error


def _check_timing(timing: Timing, now: int) -> None:
    match timing:
        case CronTiming(expression=expression, zone=zone):
            find_zone(zone)
            if len(expression) > CRON_CHARS_MAX or len(expression.split()) != 5:
                problem = "write five fields: minute, hour, day of month, month, day of week"
                raise InvalidInput(what=f"cron {expression!r:.80}", problem=problem)
            _open_cron(expression, datetime(2000, 1, 1))
        case IntervalTiming(every_ms=every, start_at=start):
            if not INTERVAL_MIN_MS <= every <= INTERVAL_MAX_MS:
                problem = f"it must be between {INTERVAL_MIN_MS} and {INTERVAL_MAX_MS}"
                raise InvalidInput(what="every_ms", problem=problem)
            if start is not None and not 0 <= start <= TIME_MAX_MS:
                raise InvalidInput(what="start_at", problem="it is no time since 1970")
        case OneShotTiming(at=at):
            if not now <= at <= TIME_MAX_MS:
                raise InvalidInput(what="at", problem="it is in the past, or after the year 3000")


def _iterate_interval(every: int, start: int, after: int) -> Iterator[int]:
    due = start if start > after else start + ((after - start) // every + 1) * every
    while True:
        yield due
        due += every


def _iterate_cron(expression: str, zone: ZoneInfo, after: int) -> Iterator[int]:
    """Return the due times of an expression.

    The expression is always evaluated on local times without a zone, because a step in a zone may
    jump over times that a change of the clock moves.
    """
    has_hours = expression.split()[1] not in _EVERY_HOUR
    begin = datetime.fromtimestamp(after // 1000, zone).replace(tzinfo=None)
    if not has_hours:
        # A clock that was set back shows these times again.
        begin -= REPEATED_MAX
    latest, found = after, list[int]()
    for local in _open_cron(expression, begin):
        first = _find_instant(local, zone)
        if has_hours or _is_shown(local, first, zone):
            heappush(found, first)
        again = first if has_hours else _to_ms(local.replace(tzinfo=zone, fold=1))
        if again > first and _is_shown(local, again, zone):
            heappush(found, again)
        # No later local time is due before this one is for the first time.
        while found and found[0] <= first:
            due = heappop(found)
            # Several skipped times are due at one change.
            if due > latest:
                latest = due
                yield due


def _open_cron(expression: str, begin: datetime) -> Iterator[datetime]:
    """Return the local times of an expression after a local time.

    Raises:
        InvalidInput: It is malformed, or names no day of any year.
    """
    # Loaded by the first schedule that has an expression.
    from cronsim import CronSim, CronSimError  # noqa: PLC0415

    try:
        return CronSim(expression, begin)
    except (CronSimError, ValueError, AssertionError) as error:
        raise InvalidInput(what=f"cron {expression!r:.80}", problem=str(error)) from error


def _is_shown(local: datetime, at: int, zone: ZoneInfo) -> bool:
    return datetime.fromtimestamp(at // 1000, zone).replace(tzinfo=None) == local


def _to_ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def _find_instant(local: datetime, zone: ZoneInfo) -> int:
    """Return when a local time is: the first of two, and the change that skips it if none."""
    instant = local.replace(tzinfo=zone).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) == local:
        return _to_ms(instant)
    # With the offsets of both sides the time lies on either side of the change.
    low, high = local.replace(tzinfo=zone, fold=1).astimezone(UTC), instant
    before = low.astimezone(zone).utcoffset()
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return _to_ms(high.replace(microsecond=0))
