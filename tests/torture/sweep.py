"""Kill at every crash point of every store scenario, and check before anything is repaired.

`python -m tests.torture.sweep --layer store` kills at system calls (needs strace);
`python -m tests.torture.sweep --failpoints` kills before and after each SQL statement, and lets
each statement fail as if the disk were broken.
"""

import argparse
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from awaken.contracts.record import Record

from . import failpoints, tracing
from .children import Ended
from .golden import Golden
from .lanes import scratch, spread
from .playing import play
from .report import finish
from .scenarios import SCENARIOS

RESUMED_EACH = 4
"""Every fourth point is also taken up again to its end."""


class Point(Record, frozen=True, kw_only=True):
    """Where to kill: at the n-th time that something happens in a scenario."""

    scenario: str
    what: str
    number: int
    is_empty: bool = False
    """Whether the store has yet to be created."""


class Swept(Record, frozen=True, kw_only=True):
    """What one lane found."""

    killed: dict[str, int]
    unreached: int
    failures: tuple[str, ...]


Kill = Callable[[Callable[[int], None], str, int], Ended]


def main() -> None:
    """Sweep, and exit with 1 when a point failed."""
    parser = argparse.ArgumentParser(prog="sweep")
    parser.add_argument("--layer", choices=["store"], default="store")
    parser.add_argument("--failpoints", action="store_true")
    parser.add_argument("--points", type=int, default=0, help="at most so many; 0 means all")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=2)
    args = parser.parse_args()
    if not args.failpoints and not tracing.is_usable():
        print("SKIPPED sweep store: strace is not here or may not attach; failpoints instead")
        args.failpoints = True
    stage = "sweep failpoints" if args.failpoints else f"sweep {args.layer}"
    golden = {name: Golden(name) for name in args.scenarios.split(",")}
    points = _points(golden, is_statement=args.failpoints)
    known = len(points)
    if args.points:
        points = random.Random(args.seed).sample(points, min(args.points, known))
    kill = failpoints.killed_at if args.failpoints else tracing.killed_at
    found = spread(partial(_swept, golden, kill), points, args.lanes)
    killed = sum((Counter(it.killed) for it in found), Counter())
    failures = [failure for it in golden.values() for failure in it.surprises]
    failures += [failure for it in found for failure in it.failures]
    counts = {
        "scenarios": len(golden),
        "crash points known": known,
        "crash points": killed.total(),
        **dict(sorted(killed.items())),
        "not reached": sum(it.unreached for it in found),
    }
    finish(stage, args.seed, counts, killed.total() - len(failures), failures)


def _points(golden: dict[str, Golden], *, is_statement: bool) -> list[Point]:
    """Every point of every scenario; the first one also creates its store."""
    points = []
    count = failpoints.counts if is_statement else tracing.counts
    for index, (name, it) in enumerate(golden.items()):
        for is_empty in (False, True) if index == 0 else (False,):
            with scratch() as folder:
                path = it.place(folder, is_empty=is_empty)
                found = count(partial(_played, name, path))
            points += [
                Point(scenario=name, what=what, number=number, is_empty=is_empty)
                for what, last in found.items()
                for number in range(1, last + 1)
            ]
    return points


def _swept(golden: dict[str, Golden], kill: Kill, points: Sequence[Point]) -> Swept:
    killed: Counter[str] = Counter()
    failures: list[str] = []
    unreached = 0
    with scratch() as folder:
        for index, point in enumerate(points):
            it = golden[point.scenario]
            path = it.place(folder, is_empty=point.is_empty)
            ended = kill(partial(_played, point.scenario, path), point.what, point.number)
            if not (ended.is_killed or ended.is_done):
                killed[point.what] += 1
                failures.append(f"{point}: it broke, status {ended.status}")
                continue
            if ended.is_done and point.what != failpoints.FAILING:
                unreached += 1
                continue
            killed[point.what] += 1
            is_resumed = index % RESUMED_EACH == 0
            found = it.problems(path, ended.history, is_resumed=is_resumed)
            if found:
                failures.append(f"{point.what} {point.number} of {'; '.join(found[:2])}")
    return Swept(killed=dict(killed), unreached=unreached, failures=tuple(failures))


def _played(scenario: str, path: Path, fd: int) -> None:
    play(scenario, path, fd)


if __name__ == "__main__":
    main()
