"""The lives of a runtime scenario: one process each, until one of them comes to its end."""

import asyncio
import json
import logging
import signal
from collections import Counter
from functools import partial
from pathlib import Path

from awaken.contracts.record import Record

from . import delegation_scenarios, runtime_scenarios
from .children import Child, Ended
from .delegation_checks import delegation_problems
from .doomed import Kill, doom
from .lanes import scratch
from .runtime_checks import Remains, Witness, attempts
from .runtime_worlds import POINTS, World, quiet

GROUPS = {
    "runtime": tuple(runtime_scenarios.SCENARIOS),
    "delegation": tuple(delegation_scenarios.SCENARIOS),
}
SCENARIOS = runtime_scenarios.SCENARIOS | delegation_scenarios.SCENARIOS
FIRST_HITS, COMMITS_MAX, CHILD_S = 3, 60, 30
LIVES_MAX = 8
IDLE = ("reclaim", "extend", "list_outbox")
"""Calls that come again and again while nothing happens."""


class Golden(Record, frozen=True, kw_only=True):
    """A scenario without a crash: how it ended, and every point that it passed."""

    name: str
    remains: Remains
    kills: tuple[Kill, ...]
    problems: tuple[str, ...] = ()


def golden_of(name: str) -> Golden:
    """Play a scenario without a crash."""
    with scratch() as folder:
        witness, problems = Witness(folder), []
        ended = one_life(name, folder, 0, None)
        witness.ended(ended.history)
        points = points_in(folder)
        if not ended.is_done and not SCENARIOS[name].crashes:
            problems.append(f"it broke, status {ended.status}")
        problems += settled(name, folder, witness, 1) if not ended.is_done else []
        remains, found = last_look(name, witness)
        usual = SCENARIOS[name].attempts
        problems += [
            f"run {run_id} was tried {count} times, not at most {usual}"
            for run_id, count in attempts(remains).items()
            if count > usual
        ]
        return Golden(
            name=name,
            remains=remains,
            kills=kills_of(points or Counter(_BLIND)),
            problems=(*problems, *found),
        )


def kills_of(points: Counter[str]) -> tuple[Kill, ...]:
    """Every point: each of its commits, the first times of everything else."""
    return tuple(
        Kill(point=point, number=number)
        for point, count in points.items()
        for number in range(1, min(count, _times(point)) + 1)
    )


def _times(point: str) -> int:
    if point.startswith("commit"):
        return COMMITS_MAX
    return 1 if point.startswith(IDLE) else FIRST_HITS


_BLIND = {f"commit {side}": 8 for side in ("before", "after")} | {
    f"{name} {side}": 2
    for name in ("enqueue", "claim", "tool put", "reclaim")
    for side in ("before", "after")
}
"""Where to kill a scenario that never comes to its end by itself, so that nobody can count."""


def settled(name: str, folder: Path, witness: Witness, first: int) -> list[str]:
    """Let processes go on until one of them comes to its end."""
    problems: list[str] = []
    for generation in range(first, first + LIVES_MAX):
        ended = one_life(name, folder, generation, None)
        if ended.is_done:
            witness.ended(ended.history)
            return problems
        if not ended.is_killed or not SCENARIOS[name].crashes:
            return [*problems, f"life {generation} did not come to its end, status {ended.status}"]
        problems += witness.look(ended.history)
    return [*problems, f"{LIVES_MAX} lives were not enough"]


def last_look(name: str, witness: Witness) -> tuple[Remains, list[str]]:
    """Look at what is left when nothing is left to do."""
    remains, problems = witness.last_look()
    if name in GROUPS["delegation"]:
        problems += delegation_problems(remains)
    return remains, problems


def one_life(name: str, folder: Path, generation: int, kill: Kill | None) -> Ended:
    """Play a scenario in a process that dies as planned, or comes to its end."""
    return Child(partial(_live, name, folder, generation, kill)).wait()


def _live(name: str, folder: Path, generation: int, kill: Kill | None, fd: int) -> None:
    """One process: later ones first do what is left without a client, then the client begins."""
    signal.alarm(CHILD_S)
    logging.disable(logging.CRITICAL)
    seen = doom(kill)
    asyncio.run(_played(name, World(folder, fd, generation)))
    (folder / POINTS).write_text(json.dumps(seen), encoding="utf-8")


async def _played(name: str, world: World) -> None:
    if world.generation:
        async with world.runtime() as runtime:
            await quiet(runtime.store)
    await SCENARIOS[name].client(world)


def points_in(folder: Path) -> Counter[str]:
    """The points that the last process passed that came to its end."""
    path = folder / POINTS
    return Counter(json.loads(path.read_text("utf-8"))) if path.exists() else Counter()
