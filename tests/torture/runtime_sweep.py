"""Kill a whole runtime at every write, tool and model turn; check, go on, and compare the endings.

`python -m tests.torture.runtime_sweep` plays each scenario once without a crash. Then, for every
point that it passed, a fresh process plays it and dies there. What it left is checked before
anybody goes on; a new process does what is left without any client, and then the client asks for
everything again. The ending must be that of the run without a crash. Some of the processes that
go on die as well.
"""

import argparse
import asyncio
import json
import logging
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from awaken.contracts.record import Record

from .children import Child, Ended
from .doomed import Kill, doom
from .lanes import scratch, spread
from .report import finish
from .runtime_checks import Remains, Witness, attempts, differences
from .runtime_scenarios import SCENARIOS
from .runtime_worlds import POINTS, World, quiet

FIRST_HITS, COMMITS_MAX, CHILD_S = 3, 60, 30
LIVES_MAX, EVERY, FAILURES_MAX = 8, 10_000, 4
IDLE = ("reclaim", "extend")
"""Writes that come again and again while nothing happens."""


class Golden(Record, frozen=True, kw_only=True):
    """A scenario without a crash: how it ended, and every point that it passed."""

    name: str
    remains: Remains
    kills: tuple[Kill, ...]
    problems: tuple[str, ...] = ()


class Trial(Record, frozen=True, kw_only=True):
    """One scenario, one place to die, and how many of the next process's places as well."""

    name: str
    kill: Kill
    again: int
    seed: str


class Swept(Record, frozen=True, kw_only=True):
    """What one lane found."""

    passed: int
    again: int
    unreached: int
    failures: tuple[str, ...]


def main() -> None:
    """Sweep, and exit with 1 when a point failed."""
    parser = argparse.ArgumentParser(prog="runtime_sweep")
    parser.add_argument("--limit", type=int, default=0, help="at most so many first deaths; 0: all")
    parser.add_argument("--full", action="store_true", help="every second death, not only some")
    parser.add_argument("--again", type=float, default=0.15, help="second deaths for each first")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=2)
    args = parser.parse_args()
    began = time.perf_counter()
    names = args.scenarios.split(",")
    golden = {it.name: it for found in spread(_goldens, names, args.lanes) for it in found}
    kills = [(name, kill) for name in names for kill in golden[name].kills]
    known = len(kills)
    random.Random(args.seed).shuffle(kills)
    chosen = kills[: args.limit] if args.limit else kills
    trials = [
        Trial(
            name=name,
            kill=kill,
            again=EVERY if args.full else _whole(place, args.again),
            seed=f"{args.seed}-{name}-{kill}",
        )
        for place, (name, kill) in enumerate(chosen)
    ]
    found = spread(partial(_swept, golden), trials, args.lanes)
    failures = [
        f"{it.name} without a crash: {text}" for it in golden.values() for text in it.problems
    ]
    failures += [failure for it in found for failure in it.failures]
    passed = sum(it.passed for it in found)
    again = sum(it.again for it in found)
    counts = {
        "scenarios": len(golden),
        "points known": known,
        "points": f"{passed + len(failures)} ({again} of them a second death)",
        "not reached": sum(it.unreached for it in found),
        "seconds": round(time.perf_counter() - began, 1),
    }
    finish("runtime_sweep", args.seed, counts, passed, failures)


def _whole(place: int, share: float) -> int:
    """Spread a share of the trials evenly: how much falls to the one at a place."""
    return int((place + 1) * share) - int(place * share)


def _goldens(names: Sequence[str]) -> list[Golden]:
    return [_golden(name) for name in names]


def _golden(name: str) -> Golden:
    with scratch() as folder:
        witness, problems = Witness(folder), []
        ended = _life(name, folder, 0, None)
        witness.ended(ended.history)
        points = _points(folder)
        if not ended.is_done and not SCENARIOS[name].crashes:
            problems.append(f"it broke, status {ended.status}")
        problems += _settled(name, folder, witness, 1) if not ended.is_done else []
        remains, found = witness.last_look()
        usual = SCENARIOS[name].attempts
        problems += [
            f"run {run_id} was tried {count} times, not at most {usual}"
            for run_id, count in attempts(remains).items()
            if count > usual
        ]
        return Golden(
            name=name,
            remains=remains,
            kills=_kills(points or Counter(_BLIND)),
            problems=(*problems, *found),
        )


def _kills(points: Counter[str]) -> tuple[Kill, ...]:
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


def _swept(golden: dict[str, Golden], trials: Sequence[Trial]) -> Swept:
    passed = again = unreached = 0
    failures: list[str] = []
    with scratch() as folder:
        for trial in trials:
            if len(failures) >= FAILURES_MAX:
                break
            outcome = _tried(golden[trial.name], folder, [trial.kill])
            if outcome is None:
                unreached += 1
                continue
            failures += outcome
            passed += not outcome
            second = list(_kills(_points(folder)))
            for kill in random.Random(trial.seed).sample(second, min(trial.again, len(second))):
                outcome = _tried(golden[trial.name], folder, [trial.kill, kill])
                if outcome is None:
                    unreached += 1
                    continue
                again += 1
                failures += outcome
                passed += not outcome
    return Swept(passed=passed, again=again, unreached=unreached, failures=tuple(failures))


def _tried(golden: Golden, folder: Path, kills: Sequence[Kill]) -> list[str] | None:
    """Play a scenario with these deaths; returns one failure, none, or None if it never died."""
    shutil.rmtree(folder)
    folder.mkdir()
    scenario = SCENARIOS[golden.name]
    witness = Witness(folder)
    problems: list[str] = []
    for generation, kill in enumerate(kills):
        ended = _life(golden.name, folder, generation, kill)
        if ended.is_done:
            return None
        if not ended.is_killed:
            problems.append(f"life {generation} broke, status {ended.status}")
        problems += witness.look(ended.history)
    problems += _settled(golden.name, folder, witness, len(kills))
    remains, found = witness.last_look()
    problems += found
    problems += differences(golden.remains, remains, witness.deaths, scenario.varies)
    if not problems:
        return []
    return [f"{golden.name} at {', then '.join(map(str, kills))}: {'; '.join(problems[:4])}"]


def _settled(name: str, folder: Path, witness: Witness, first: int) -> list[str]:
    """Let processes go on until one of them comes to its end."""
    problems: list[str] = []
    for generation in range(first, first + LIVES_MAX):
        ended = _life(name, folder, generation, None)
        if ended.is_done:
            witness.ended(ended.history)
            return problems
        if not ended.is_killed or not SCENARIOS[name].crashes:
            return [*problems, f"life {generation} did not come to its end, status {ended.status}"]
        problems += witness.look(ended.history)
    return [*problems, f"{LIVES_MAX} lives were not enough"]


def _life(name: str, folder: Path, generation: int, kill: Kill | None) -> Ended:
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


def _points(folder: Path) -> Counter[str]:
    """The points that the last process passed that came to its end."""
    path = folder / POINTS
    return Counter(json.loads(path.read_text("utf-8"))) if path.exists() else Counter()


if __name__ == "__main__":
    main()
