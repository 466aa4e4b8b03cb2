"""Kill a whole runtime at every write, tool and model turn; check, go on, and compare the endings.

`python -m tests.torture.runtime_sweep` plays each scenario once without a crash. Then, for every
point that it passed, a fresh process plays it and dies there. What it left is checked before
anybody goes on; a new process does what is left without any client, and then the client asks for
everything again. The ending must be that of the run without a crash. Some of the processes that
go on die as well.
"""

import argparse
import random
import shutil
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from awaken.contracts.record import Record

from .doomed import Kill
from .lanes import scratch, spread
from .report import finish
from .runtime_checks import Witness, differences
from .runtime_lives import (
    GROUPS,
    SCENARIOS,
    Golden,
    golden_of,
    kills_of,
    last_look,
    one_life,
    points_in,
    settled,
)

EVERY, FAILURES_MAX = 10_000, 4


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
    parser.add_argument("--scenarios", default="runtime", help="names or groups of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=2)
    args = parser.parse_args()
    began = time.perf_counter()
    names = [name for it in args.scenarios.split(",") for name in GROUPS.get(it, (it,))]
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
    return [golden_of(name) for name in names]


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
            second = list(kills_of(points_in(folder)))
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
        ended = one_life(golden.name, folder, generation, kill)
        if ended.is_done:
            return None
        if not ended.is_killed:
            problems.append(f"life {generation} broke, status {ended.status}")
        problems += witness.look(ended.history)
    problems += settled(golden.name, folder, witness, len(kills))
    remains, found = last_look(golden.name, witness)
    problems += found
    problems += differences(golden.remains, remains, witness.deaths, scenario.varies)
    if not problems:
        return []
    return [f"{golden.name} at {', then '.join(map(str, kills))}: {'; '.join(problems[:4])}"]


if __name__ == "__main__":
    main()
