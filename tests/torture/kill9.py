"""Kill processes that share a store, again and again, and check before the next ones start.

`python -m tests.torture.kill9 --cycles 3000 --workers 2`: each generation forks its workers on one
file and kills each at a random moment while the others go on.
"""

import argparse
import random
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from awaken.contracts.record import Record

from .children import Child
from .history import History
from .lanes import scratch, spread
from .random_work import Orders, finish_all, work
from .report import finish
from .store_file import leftovers_of, problems_of

WINDOW, DEEP_EACH, FILE_LIFE = 8, 20, 240
"""Generations that use the same threads, between deep checks, and on one file."""
LIFE_MS = (1, 30)
FAILURES_MAX = 20


class Outcome(Record, frozen=True, kw_only=True):
    """What one lane did."""

    kills: int
    operations: dict[str, int]
    failures: tuple[str, ...]


def main() -> None:
    """Kill, and exit with 1 when anything was lost, doubled or half."""
    parser = argparse.ArgumentParser(prog="kill9")
    parser.add_argument("--cycles", type=int, default=3000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    generations = range(-(-args.cycles // args.workers))
    found = spread(partial(_lane, args.seed, args.workers), generations, args.lanes)
    operations = sum((Counter(it.operations) for it in found), Counter())
    kills = sum(it.kills for it in found)
    failures = [failure for it in found for failure in it.failures]
    counts = {"kills": kills, **{f"operations {name}": n for name, n in operations.items()}}
    if not operations.total():
        failures.append("no operation was logged")
    finish("kill9", args.seed, counts, kills - len(failures), failures)


def _lane(seed: int, workers: int, generations: Sequence[int]) -> Outcome:
    operations: Counter[str] = Counter()
    failures: list[str] = []
    kills = 0
    with scratch() as folder:
        history, path = History(), folder / "store.db"
        for index, generation in enumerate(generations):
            if index % FILE_LIFE == 0:
                path = folder / f"store{index}.db"
            if index % WINDOW == 0:
                history = History()
            orders = [
                Orders(
                    name=f"g{generation}w{n}",
                    seed=f"{seed}-{generation}-{n}",
                    window=index // WINDOW,
                )
                for n in range(workers)
            ]
            fresh, found = _generation(path, orders)
            kills += workers
            operations.update(fresh.counts)
            history += fresh
            if history.operations:
                found += problems_of(path, history, is_deep=index % DEEP_EACH == 0)
            if index % WINDOW == WINDOW - 1 or generation == generations[-1]:
                found += _leftovers(path, history)
            if found:
                failures.append(f"generation {generation}: {'; '.join(found[:3])}")
            if len(failures) > FAILURES_MAX:
                break
    return Outcome(kills=kills, operations=dict(operations), failures=tuple(failures))


def _generation(path: Path, orders: Sequence[Orders]) -> tuple[History, list[str]]:
    """Let workers live for a moment each; return all that they logged, and who ended early."""
    dice = random.Random(orders[0].seed)
    ends = [
        (dice.uniform(*LIFE_MS) / 1000, Child(partial(work, path, it)), it.name) for it in orders
    ]
    ends.sort(key=lambda end: end[0])
    begin = time.perf_counter()
    for life, child, _ in ends:
        time.sleep(max(begin + life - time.perf_counter(), 0))
        child.kill()
    history, early = History(), []
    for _, child, name in ends:
        ended = child.wait()
        history += ended.history
        if not ended.is_killed:
            early.append(f"worker {name} ended by itself, status {ended.status}")
    return history, early


def _leftovers(path: Path, history: History) -> list[str]:
    """Let a healthy worker do what is left, a day later, and see that nothing is stuck."""
    ended = Child(partial(finish_all, path)).wait()
    if not ended.is_done:
        return [f"what is left could not be finished, status {ended.status}"]
    whole = history + ended.history
    return leftovers_of(path, whole) if whole.operations else []


if __name__ == "__main__":
    main()
