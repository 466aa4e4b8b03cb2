"""Schedules, two processes, kills and clock jumps: each due time is decided once.

Two real processes share a store and fire. Meanwhile they are killed with SIGKILL and started again,
and the clock of the store jumps by an hour, forward and back. In the end every due time of every
schedule up to the last one that is decided was fired once, or is in one range of skipped ones.
"""

import argparse
import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from itertools import takewhile
from pathlib import Path
from typing import Any

from tests.torture.due_times_node import open_store
from tests.torture.lanes import scratch

from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.queries import (
    LIMIT_MAX,
    DispatchQuery,
    FiringQuery,
    ScheduleQuery,
    at_cursor,
)
from awaken.contracts.storage.schedules import (
    CronTiming,
    Firing,
    FiringOutcome,
    IntervalTiming,
    OverlapPolicy,
    RunTarget,
    Schedule,
    ScheduleSpec,
)
from awaken.scheduling.due_times import iterate_due
from awaken.scheduling.plans import find_wake

HOUR_MS = 60 * 60 * 1000
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo")


def make_schedule(number: int, now: int, rng: random.Random) -> Schedule:
    """A schedule whose due times began some hours ago, as after an outage."""
    every = rng.choice((60_000, 300_000, 17 * 60_000))
    timing: Any = IntervalTiming(every_ms=every, start_at=now - rng.randrange(4 * HOUR_MS))
    if number % 2:
        expression = f"*/{rng.choice((5, 10, 15))} {rng.choice(('*', '0-23'))} * * *"
        timing = CronTiming(expression=expression, zone=rng.choice(ZONES))
    spec = ScheduleSpec(
        timing=timing,
        target=RunTarget(agent_id="writer", input="Write."),
        overlap=rng.choice(list(OverlapPolicy)),
        catch_up=rng.choice((0, 1, 3, 20)),
        jitter_ms=rng.choice((0, 0, 7_000)),
    )
    blank = Schedule(schedule_id=f"s{number}", spec=spec)
    due = next(iterate_due(spec, now - 3 * HOUR_MS, now))
    return Schedule(
        schedule_id=blank.schedule_id, spec=spec, next_due=due, wake_at=find_wake(blank, due)
    )


class DueTimes:
    """One trial: a store, two processes, and what is done to them."""

    def __init__(self, url: str, folder: Path, *, schedules: int, kills: int, seed: int) -> None:
        self._url, self._folder = url, folder
        self._count, self._kills = schedules, kills
        self._rng = random.Random(seed)
        self._jump = folder / "jump"
        self._nodes: list[subprocess.Popen[str]] = []
        self._firsts: dict[str, int] = {}

    async def play(self) -> dict[str, int]:
        """Play the trial; returns what was counted.

        Raises:
            AssertionError: A due time was lost, or decided twice.
        """
        # The trial's own clock does not jump.
        store: Any = open_store(self._url, self._folder / "no jump")
        (self._folder / "no jump").write_text("0")
        await store.open()
        try:
            now = await store.now_ms()
            self._jump.write_text("0")
            try:
                self._nodes = [self._start(), self._start()]
                for node in self._nodes:
                    assert node.stdout is not None
                    await asyncio.to_thread(node.stdout.readline)
                for number in range(self._count):
                    made = await store.add_schedule(make_schedule(number, now, self._rng))
                    self._firsts[made.schedule_id] = made.next_due
                for kill in range(self._kills):
                    await asyncio.sleep(self._rng.uniform(0.2, 0.8))
                    self._set_clock(self._rng.choice((0, HOUR_MS, -HOUR_MS, 2 * HOUR_MS)))
                    # Both find the same due times; then one of them is killed over them.
                    await asyncio.sleep(self._rng.choice((0, 0.02, 0.1, 0.3)))
                    stop(self._nodes[kill % 2])
                    self._nodes[kill % 2] = self._start()
                self._set_clock(2 * HOUR_MS)
                await self._settle(store)
            finally:
                for node in self._nodes:
                    stop(node)
            return await self._check(store)
        finally:
            await store.close()

    def _set_clock(self, offset: int) -> None:
        # Written aside and moved: a reader never sees half of it.
        beside = self._jump.with_suffix(".new")
        beside.write_text(str(offset))
        os.replace(beside, self._jump)

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.torture.due_times_node", self._url, str(self._jump)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    async def _settle(self, store: Any) -> None:
        """Wait until nothing is due any more: on a file, two hours ahead."""
        ahead = 2 * HOUR_MS if self._url.startswith("sqlite:") else 5_000
        async with asyncio.timeout(150):
            while True:
                now, wake = await store.find_next_wake()
                if wake is None or wake > now + ahead - 5_000:
                    return
                await asyncio.sleep(0.2)

    async def _check(self, store: Any) -> dict[str, int]:
        counts: Counter[str] = Counter()
        dispatched = Counter(it.dedupe_key for it in await list_dispatches(store))
        assert all(count == 1 for count in dispatched.values()), "a due time was queued twice"
        for schedule in await list_all(store.list_schedules, ScheduleQuery(limit=LIMIT_MAX)):
            firings = await list_all(
                store.list_firings, FiringQuery(schedule_id=schedule.schedule_id, limit=LIMIT_MAX)
            )
            counts += self._check_schedule(schedule, firings, dispatched)
        return dict(counts)

    def _check_schedule(
        self, schedule: Schedule, firings: list[Firing], dispatched: Counter[Any]
    ) -> Counter[str]:
        first, until = self._firsts[schedule.schedule_id], schedule.decided_until
        wanted = [
            first,
            *takewhile(
                lambda due: due <= until, iterate_due(schedule.spec, first, schedule.created_at)
            ),
        ]
        decided: Counter[int] = Counter()
        counts: Counter[str] = Counter()
        for it in firings:
            last = it.last_due_at or it.due_at
            covered = [due for due in wanted if it.due_at <= due <= last]
            assert len(covered) == it.count, (schedule.schedule_id, it)
            decided.update(covered)
            counts[f"{it.outcome} {it.reason or ''}".strip()] += it.count
            key = f"schedule:{schedule.schedule_id}:{schedule.created_at}:{it.due_at}"
            assert (it.outcome is FiringOutcome.FIRED) == (key in dispatched), (key, it)
        name = schedule.schedule_id
        twice = [due for due, count in decided.items() if count > 1]
        lost = [due for due in wanted if due not in decided]
        assert not twice, f"{name}: decided twice: {twice[:5]}"
        assert not lost, f"{name}: lost: {lost[:5]}"
        fired = sum(it.outcome is FiringOutcome.FIRED for it in firings)
        assert fired == schedule.fired_count, (
            f"{name}: {fired} fired, {schedule.fired_count} counted"
        )
        return counts


def stop(node: subprocess.Popen[str]) -> None:
    """Kill a process, and close what it wrote to."""
    node.kill()
    node.wait()
    if node.stdout is not None:
        node.stdout.close()


async def list_dispatches(store: Any) -> list[RunDispatch]:
    """Every dispatch of a store."""
    return await list_all(store.list_dispatches, DispatchQuery(limit=LIMIT_MAX))


async def list_all(listing: Any, query: Any) -> list[Any]:
    """Every item of a listing, page by page."""
    found: list[Any] = []
    while True:
        page = await listing(query)
        found += page.items
        if page.next_cursor is None:
            return found
        query = at_cursor(query, page.next_cursor)


def main() -> None:
    """Play trials and print how they went."""
    parser = argparse.ArgumentParser(prog="due_times")
    parser.add_argument("--schedules", type=int, default=100)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    with scratch() as folder:
        trial = DueTimes(
            f"sqlite:///{folder / 'store.db'}",
            folder,
            schedules=given.schedules,
            kills=given.kills,
            seed=given.seed,
        )
        try:
            counts, failed = asyncio.run(trial.play()), 0
        except (AssertionError, TimeoutError) as error:
            counts, failed = {"problem": str(error)}, 1
    print(
        f"due_times: seed {given.seed}, {given.schedules} schedules, {given.kills} kills: {counts}"
    )
    print(f"{1 - failed} passed, {failed} failed")
    sys.exit(failed)


if __name__ == "__main__":
    main()
