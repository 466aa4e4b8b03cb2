"""Due times over real changes of clocks, and what one look at a schedule decides."""

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling import choose_size

from awaken.contracts.errors import InvalidInput
from awaken.contracts.storage.schedules import (
    CronTiming,
    IntervalTiming,
    OneShotTiming,
    OverlapPolicy,
    RunTarget,
    Schedule,
    ScheduleSpec,
    Timing,
)
from awaken.scheduling.due_times import check_spec, find_next_due, iterate_due
from awaken.scheduling.plans import LATE_MS, SCANNED_MAX, find_wake, plan_firing

TARGET = RunTarget(agent_id="writer", input="Write.")
MINUTE = 60_000

# Zone, the day of a change, and what changes: one hour, half an hour, at midnight, a whole day.
CHANGES = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("Australia/Lord_Howe", "2026-04-05"),
    ("Australia/Lord_Howe", "2026-10-04"),
    ("America/Sao_Paulo", "2018-11-04"),
    ("America/Sao_Paulo", "2019-02-17"),
    ("Africa/Cairo", "2024-04-26"),
    ("Africa/Cairo", "2024-11-01"),
    ("America/Santiago", "2026-09-06"),
    ("America/Santiago", "2026-04-05"),
    ("Pacific/Apia", "2011-12-30"),
    ("Asia/Kathmandu", "1986-01-01"),
    ("UTC", "2026-03-29"),
]


def to_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def cron(expression: str, zone: str, **more: object) -> ScheduleSpec:
    timing = CronTiming(expression=expression, zone=zone)
    return ScheduleSpec(timing=timing, target=TARGET, **more)  # type: ignore[arg-type]


def list_due(spec: ScheduleSpec, first: int, last: int) -> list[int]:
    return list(takewhile(lambda due: due <= last, iterate_due(spec, first, first)))


def days_around(day: str) -> tuple[int, int]:
    middle = datetime.fromisoformat(day).replace(tzinfo=UTC)
    first, last = middle - timedelta(days=3), middle + timedelta(days=3)
    return int(first.timestamp() * 1000), int(last.timestamp() * 1000)


def local_minutes(zone: ZoneInfo, first: int, last: int) -> dict[datetime, list[int]]:
    """Every minute that the clocks of a zone show, with the instants at which they show it."""
    shown: dict[datetime, list[int]] = {}
    for at in range(first - first % MINUTE, last + 1, MINUTE):
        local = datetime.fromtimestamp(at // 1000, zone).replace(tzinfo=None, second=0)
        shown.setdefault(local, []).append(at)
    return shown


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@pytest.mark.parametrize(
    "expression", ["30 2 * * *", "0 0 * * *", "15 0,1,2,3 * * *", "*/10 1 * * *", "0 */2 * * *"]
)
def test_each_local_time_that_names_an_hour_is_due_once(
    zone: str, day: str, expression: str
) -> None:
    first, last = days_around(day)
    due = list_due(cron(expression, zone), first, last)
    assert due == sorted(set(due))
    shown = local_minutes(ZoneInfo(zone), first, last)
    minutes, hours = expression.split()[:2]
    named_minutes = set(range(0, 60, 10)) if minutes == "*/10" else {int(minutes)}
    named_hours = set(range(0, 24, 2)) if hours == "*/2" else {int(it) for it in hours.split(",")}
    wanted: set[int] = set()
    begin, end = min(shown), max(shown)
    local = begin
    while local <= end:
        if local.minute in named_minutes and local.hour in named_hours:
            if local in shown:
                wanted.add(shown[local][0])
            else:
                # The first instant whose clocks show a later time: the change itself.
                wanted.add(min(at for it, found in shown.items() if it > local for at in found))
        local += timedelta(minutes=1)
    assert set(due) == {it for it in wanted if first < it <= last}


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@pytest.mark.parametrize(
    "expression", ["*/30 * * * *", "0 * * * *", "0 */1 * * *", "0 0-23 * * *", "45 * * * SUN"]
)
def test_an_expression_without_hours_is_due_whenever_clocks_show_its_minutes(
    zone: str, day: str, expression: str
) -> None:
    first, last = days_around(day)
    due = list_due(cron(expression, zone), first, last)
    minutes, is_sunday = expression.split()[0], "SUN" in expression
    named = {0, 30} if minutes == "*/30" else {int(minutes)}
    wanted = sorted(
        at
        for local, found in local_minutes(ZoneInfo(zone), first, last).items()
        if local.minute in named and (not is_sunday or local.weekday() == 6)
        for at in found
        if first < at <= last
    )
    assert due == wanted


def test_a_skipped_time_is_due_at_the_change_and_a_repeated_one_the_first_time() -> None:
    berlin = cron("30 2 * * *", "Europe/Berlin")
    skipped = find_next_due(berlin, to_ms("2026-03-28T12:00:00+00:00"), 0)
    assert skipped == to_ms("2026-03-29T03:00:00+02:00")
    repeated = islice(iterate_due(berlin, to_ms("2026-10-24T12:00:00+00:00"), 0), 2)
    assert list(repeated) == [
        to_ms("2026-10-25T02:30:00+02:00"),
        to_ms("2026-10-26T02:30:00+01:00"),
    ]


@pytest.mark.sampled
@settings(max_examples=choose_size(60, 3_000), deadline=None)
@given(
    zone=st.sampled_from([zone for zone, _ in CHANGES]),
    begin=st.integers(to_ms("2000-01-01T00:00:00+00:00"), to_ms("2035-01-01T00:00:00+00:00")),
    minute=st.integers(0, 59),
    hour=st.one_of(st.just("*"), st.integers(0, 23).map(str), st.just("*/6")),
)
def test_due_times_do_not_depend_on_where_a_reader_begins(
    zone: str, begin: int, minute: int, hour: str
) -> None:
    spec = cron(f"{minute} {hour} * * *", zone)
    due = list(islice(iterate_due(spec, begin, 0), 40))
    assert due == sorted(set(due))
    assert due[0] > begin
    for place in (0, 7, 20):
        assert list(islice(iterate_due(spec, due[place], 0), 5)) == due[place + 1 : place + 6]


def test_intervals_are_counted_from_their_start() -> None:
    spec = ScheduleSpec(timing=IntervalTiming(every_ms=10_000, start_at=5_000), target=TARGET)
    assert list(islice(iterate_due(spec, 0, 0), 2)) == [5_000, 15_000]
    assert list(islice(iterate_due(spec, 15_000, 0), 2)) == [25_000, 35_000]
    once = ScheduleSpec(timing=OneShotTiming(at=50), target=TARGET)
    assert list(iterate_due(once, 49, 0)) == [50]
    assert list(iterate_due(once, 50, 0)) == []


@pytest.mark.parametrize(
    "timing",
    [
        CronTiming(expression="* * * * * *"),
        CronTiming(expression="*/5 * * * * *"),
        CronTiming(expression="0 0 31 4 *"),
        CronTiming(expression="0 0 1 1 MON#6"),
        CronTiming(expression="0/1" * 300),
        CronTiming(expression="0 8 * * *", zone="/etc/localtime"),
        CronTiming(expression="0 8 * * *", zone=""),
        IntervalTiming(every_ms=9_999),
        IntervalTiming(every_ms=-1),
        OneShotTiming(at=-5),
    ],
)
def test_a_timing_that_is_malformed_or_too_dense_is_refused(timing: CronTiming) -> None:
    with pytest.raises(InvalidInput):
        check_spec(ScheduleSpec(timing=timing, target=TARGET), 1_000)


def every_minute(**more: object) -> Schedule:
    spec = ScheduleSpec(timing=IntervalTiming(every_ms=MINUTE, start_at=0), target=TARGET, **more)  # type: ignore[arg-type]
    return Schedule(schedule_id="s", spec=spec, next_due=MINUTE, wake_at=MINUTE)


def test_after_an_outage_the_newest_missed_times_fire_and_the_rest_are_one_skipped_range() -> None:
    now = 100 * MINUTE + 5
    plan = plan_firing(every_minute(catch_up=2), now)
    assert plan.skipped is not None
    assert (plan.skipped.due_at, plan.skipped.last_due_at) == (MINUTE, 97 * MINUTE)
    assert (plan.skipped.count, plan.skipped.reason) == (97, "missed")
    assert (plan.due, plan.following) == (98 * MINUTE, 99 * MINUTE)
    none = plan_firing(every_minute(catch_up=0), now)
    assert (none.due, none.skipped and none.skipped.count) == (100 * MINUTE, 99)


def test_a_time_that_is_a_little_late_always_fires() -> None:
    for late in (0, LATE_MS):
        plan = plan_firing(every_minute(catch_up=0), MINUTE + late)
        assert (plan.due, plan.skipped) == (MINUTE, None)


def test_a_queue_keeps_one_late_time_whatever_the_catch_up_limit() -> None:
    plan = plan_firing(every_minute(catch_up=0, overlap=OverlapPolicy.QUEUE), 50 * MINUTE)
    assert plan.skipped is not None
    assert plan.due == (plan.skipped.last_due_at or 0) + MINUTE
    # Whether they waited or no process was there cannot be told apart: it says neither for sure.
    assert "previous run had not ended, or" in (plan.skipped.detail or "")


def decide_all(schedule: Schedule, now: int) -> tuple[list[int], list[int], Schedule]:
    """Look until nothing is due; returns what fired, how many each look skipped, and the rest."""
    fired, skipped, last = [], [], 0
    while schedule.next_due is not None and find_wake(schedule, schedule.next_due) <= now:
        plan = plan_firing(schedule, now)
        if plan.skipped is not None:
            assert plan.skipped.due_at > last
            last = plan.skipped.last_due_at or plan.skipped.due_at
            skipped.append(plan.skipped.count)
        if plan.due is not None:
            assert plan.due > last
            last = plan.due
            fired.append(plan.due)
        assert plan.following is None or plan.following > last
        schedule = msgspec.structs.replace(schedule, next_due=plan.following)
    return fired, skipped, schedule


@pytest.mark.parametrize("catch_up", [0, 1, 100])
@pytest.mark.parametrize(
    "missed", [SCANNED_MAX - 1, SCANNED_MAX, SCANNED_MAX + 1, SCANNED_MAX + 50, 3 * SCANNED_MAX + 7]
)
def test_after_a_very_long_outage_the_newest_times_fire_and_every_other_is_skipped(
    catch_up: int, missed: int
) -> None:
    now = missed * MINUTE + LATE_MS // 2
    fired, skipped, rest = decide_all(every_minute(catch_up=catch_up), now)
    # The latest one was not missed.
    count = catch_up + 1
    assert fired == [(missed - it) * MINUTE for it in reversed(range(count))]
    assert sum(skipped) == missed - count
    assert max(skipped) <= SCANNED_MAX
    assert rest.next_due == (missed + 1) * MINUTE


JITTERY = [
    IntervalTiming(every_ms=10_000, start_at=0),
    CronTiming(expression="* * * * *", zone="Europe/Berlin"),
    CronTiming(expression="0,1,7 * * * *", zone="Europe/Berlin"),
    CronTiming(expression="*/20 0-4 * * *", zone="Australia/Lord_Howe"),
]


@given(
    timing=st.sampled_from(JITTERY),
    jitter=st.sampled_from([1, 9_999, 10_000, 60_000, 400_000, 3_600_000]),
    catch_up=st.sampled_from([0, 1, 3]),
    begin=st.sampled_from([1_761_432_000_000, 1_775_300_000_000]),
    stops=st.lists(st.integers(0, 40 * MINUTE), max_size=4),
)
@settings(deadline=None, max_examples=choose_size(60, 2_000))
def test_every_due_time_fires_once_in_order_however_long_its_jitter(
    timing: Timing, jitter: int, catch_up: int, begin: int, stops: list[int]
) -> None:
    """A process looks whenever a due time wakes, and now and then none is there for a while."""
    spec = ScheduleSpec(timing=timing, target=TARGET, jitter_ms=jitter, catch_up=catch_up)
    first = find_next_due(spec, begin, begin)
    schedule = Schedule(schedule_id="s", spec=spec, next_due=first, created_at=begin)
    decided: list[int] = []
    now, count = begin, 0
    for pause in [*([0] * 30), *[it for stop in stops for it in (stop, *([0] * 10))]]:
        assert schedule.next_due is not None
        due, wake = schedule.next_due, find_wake(schedule, schedule.next_due)
        assert due <= wake <= due + jitter
        now = max(now, wake) + pause
        fired, skipped, schedule = decide_all(schedule, now)
        decided += fired
        count += len(fired) + sum(skipped)
        if not pause:
            assert due in fired
            assert not skipped
    assert decided == sorted(set(decided))
    expected = list(islice(iterate_due(spec, begin, begin), count + 1))
    assert schedule.next_due == expected[-1]
    assert set(decided) <= set(expected)


def test_jitter_is_the_same_in_every_process_and_bounded() -> None:
    spec = ScheduleSpec(timing=IntervalTiming(every_ms=MINUTE), target=TARGET, jitter_ms=5_000)
    schedule = Schedule(schedule_id="s", spec=spec)
    wakes = [find_wake(schedule, due) - due for due in range(0, 100 * MINUTE, MINUTE)]
    assert wakes == [find_wake(schedule, due) - due for due in range(0, 100 * MINUTE, MINUTE)]
    assert all(0 <= it <= 5_000 for it in wakes)
    assert len(set(wakes)) > 50
