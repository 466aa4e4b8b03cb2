"""Kill only the process of the parent, or only that of the child, at every point of either.

`python -m tests.torture.pair_sweep` lets a process die that executes a run and the one below it.
Two processes take them over, with room for one run each, and one of the two dies at a point. The
other one has to bring everything to its end alone.
"""

import argparse
import asyncio
import json
import logging
import random
import shutil
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Thread

from awaken.contracts.record import Record

from .children import Child, Ended
from .client_steps import THREAD
from .delegation_scenarios import CANCELLED, DECIDED
from .doomed import Kill, doom
from .history import History
from .lanes import scratch, spread
from .report import finish
from .runtime_checks import Witness, differences
from .runtime_lives import CHILD_S, SCENARIOS, Golden, golden_of, last_look, one_life, settled
from .runtime_worlds import POINTS, STORE, World, quiet

PARTS = {THREAD: "parent", "": "child"}
"""Who claims the client's thread first is the parent's process."""
IN_CHILD = Kill(point="tool slow after", number=1)
BEGINNINGS: dict[str, Kill] = {
    "delegate-slowly": IN_CHILD,
    "delegate-nested-slowly": IN_CHILD,
    "slow-task": IN_CHILD,
    "delegate-asks-later": Kill(point=DECIDED, number=1),
    "cancel-parent": Kill(point=CANCELLED, number=1),
}
"""Where the first process dies, by scenario."""
REPLACED = frozenset({"cancel-parent"})
"""Where a third process takes the place of the dead one: a child that nobody has stopped yet has
the only place of the other one, and stays in it for ever."""
DEAD, OVER = "dead", "over"
HITS, FAILURES_MAX = 8, 4
IDLE = ("reclaim", "extend", "list_outbox")


class Swept(Record, frozen=True, kw_only=True):
    """What one lane found."""

    passed: int
    unreached: int
    failures: tuple[str, ...]


def main() -> None:
    """Sweep, and exit with 1 when a point failed."""
    parser = argparse.ArgumentParser(prog="pair_sweep")
    parser.add_argument("--limit", type=int, default=0, help="at most so many deaths; 0: all")
    parser.add_argument("--scenarios", default=",".join(BEGINNINGS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=2)
    args = parser.parse_args()
    began = time.perf_counter()
    names = args.scenarios.split(",")
    golden = dict(it for found in spread(_goldens, names, args.lanes) for it in found)
    kills = [(name, kill) for name in names for kill in golden[name][1]]
    random.Random(args.seed).shuffle(kills)
    chosen = kills[: args.limit] if args.limit else kills
    found = spread(
        partial(_swept, {name: it for name, (it, _) in golden.items()}), chosen, args.lanes
    )
    failures = [f"{name}: {text}" for name, (it, _) in golden.items() for text in it.problems]
    failures += [failure for it in found for failure in it.failures]
    passed = sum(it.passed for it in found)
    counts = {
        "scenarios": len(golden),
        "points known": len(kills),
        "points": passed + len(failures),
        "not reached": sum(it.unreached for it in found),
        "seconds": round(time.perf_counter() - began, 1),
    }
    finish("pair_sweep", args.seed, counts, passed, failures)


def _goldens(names: Sequence[str]) -> list[tuple[str, tuple[Golden, list[Kill]]]]:
    """Every scenario without a crash, and the points that two processes pass who take it over."""
    return [(name, (golden_of(name), _points(name))) for name in names]


def _points(name: str) -> list[Kill]:
    points: Counter[str] = Counter()
    with scratch() as folder:
        one_life(name, folder, 0, BEGINNINGS[name])
        _pair(name, folder, None)
        for path in folder.glob(f"{POINTS}-*"):
            points += Counter(json.loads(path.read_text("utf-8")))
    return [
        Kill(point=point, number=number)
        for point, count in points.items()
        if point.startswith(tuple(PARTS.values()))
        for number in range(1, min(count, 1 if point.split(" ")[1] in IDLE else HITS) + 1)
    ]


def _swept(golden: dict[str, Golden], trials: Sequence[tuple[str, Kill]]) -> Swept:
    passed = unreached = 0
    failures: list[str] = []
    with scratch() as folder:
        for name, kill in trials:
            if len(failures) >= FAILURES_MAX:
                break
            problems = _tried(golden[name], folder, kill)
            unreached += problems is None
            passed += problems == []
            if problems:
                failures.append(f"{name} at {kill}: {'; '.join(problems[:4])}")
    return Swept(passed=passed, unreached=unreached, failures=tuple(failures))


def _tried(golden: Golden, folder: Path, kill: Kill) -> list[str] | None:
    """Play a scenario in which one of two processes dies; None if it did not."""
    shutil.rmtree(folder)
    folder.mkdir()
    name, witness = golden.name, Witness(folder)
    problems = witness.look(one_life(name, folder, 0, BEGINNINGS[name]).history)
    pair = _pair(name, folder, kill)
    # What the dead one was not answered, the other one may have done meanwhile.
    answered = [op for it in pair for op in it.history.operations if op.told is not None]
    problems += witness.look(History(answered))
    # With three runs both may have a child's part.
    witness.deaths = 1 + sum(it.is_killed for it in pair)
    broken = [it.status for it in pair if not it.is_done and not it.is_killed]
    problems += [f"a process broke, status {status}" for status in broken]
    if not any(it.is_killed for it in pair) and not broken:
        return None
    problems += settled(name, folder, witness, 2)
    remains, found = last_look(name, witness)
    varies = SCENARIOS[name].varies
    return problems + found + differences(golden.remains, remains, witness.deaths, varies)


def _pair(name: str, folder: Path, kill: Kill | None) -> list[Ended]:
    """Two processes at once; what one that dies has leased runs out at that moment."""
    both = [Child(partial(_live, folder, part, kill)) for part in ("a", "b")]
    third = Child(partial(_stand_by, folder)) if name in REPLACED else None
    ended: list[Ended] = []

    def follow(child: Child) -> None:
        ended.append(child.wait())
        if ended[-1].is_killed:
            _expire(folder / STORE, child.pid)
            (folder / DEAD).touch()

    threads = [Thread(target=follow, args=(child,)) for child in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (folder / OVER).touch()
    return [*ended, third.wait()] if third is not None else ended


def _expire(path: Path, pid: int) -> None:
    connection = sqlite3.connect(path, timeout=CHILD_S)
    with connection:
        connection.execute(
            "UPDATE threads SET lease_until = 0 WHERE claimed_by LIKE ?", (f"%:{pid}:%",)
        )
    connection.close()


def _live(folder: Path, name: str, kill: Kill | None, fd: int) -> None:
    signal.alarm(CHILD_S)
    logging.disable(logging.CRITICAL)
    seen = doom(kill, PARTS)
    asyncio.run(_worked(World(folder, fd, 1, name), concurrency=1))
    (folder / f"{POINTS}-{name}").write_text(json.dumps(seen), encoding="utf-8")


def _stand_by(folder: Path, fd: int) -> None:
    """Take the place of the one that dies, if one does."""
    signal.alarm(CHILD_S)
    logging.disable(logging.CRITICAL)
    while not (folder / DEAD).exists():
        if (folder / OVER).exists():
            return
        time.sleep(0.005)
    asyncio.run(_worked(World(folder, fd, 1, "c")))


async def _worked(world: World, **config: int) -> None:
    async with world.runtime(**config) as runtime:
        await quiet(runtime.store)


if __name__ == "__main__":
    main()
