"""Plays scenarios on a file, with a clock that stands still inside a step.

So every run of a scenario leaves the same bytes in every table, and what a crash left behind can
be compared with what each step leaves.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from awaken.stores.sql.session import Moment
from awaken.stores.sqlite import SqliteStore

from .clients import Client
from .history import Log, Reached
from .scenarios import SCENARIOS, Step

STEP_MS = 1_000_000


class StepClock:
    """Stands in for the machine's clocks."""

    def __init__(self) -> None:
        self.step = 0

    def __call__(self) -> Moment:
        now = (self.step + 1) * STEP_MS
        return Moment(wall_ms=now, lease_ms=now)


def play(scenario: str, path: Path, fd: int, first: int = 0, last: int | None = None) -> None:
    """Play the steps from `first` until before `last`, and log to `fd`; blocks until then."""
    asyncio.run(_play(SCENARIOS[scenario]()[:last], path, fd, first))


async def _play(steps: Sequence[Step], path: Path, fd: int, first: int) -> None:
    clock = StepClock()
    clock.step = first
    store = SqliteStore(path, clock)
    log = Log(fd)
    client = Client(store, log, "client", is_patient=False)
    await store.open()
    for number in range(first, len(steps)):
        clock.step = number
        log.write(Reached(number=number))
        await steps[number](client)
    log.write(Reached(number=len(steps)))
    await store.close()
