"""Decide, cancel and finish at the same moment, through two runtimes on one store; no crashes.

`python -m tests.torture.control_races --races 10000`: acknowledged means that it happened once,
refused that it did not, and every run has one terminal event.
"""

import argparse
import asyncio
import itertools
import time
from pathlib import Path

from awaken.stores.sqlite.writer import run_without_suspending

from .control_driver import Client, InProcessNode
from .control_model import Record, find_problems
from .control_node import Place, open_runtime
from .history import Ledger
from .lanes import scratch
from .report import finish
from .runtime_worlds import quiet
from .store_file import StoreFile

CLIENTS = 12
RUNTIMES = 2
BATCH = 1_000
"""Races on one store; the judge reads a store whole."""


def main() -> None:
    """Race, and exit with 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="control_races")
    parser.add_argument("--races", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    began = time.perf_counter()
    counts: dict[str, int] = {}
    failures: list[str] = []
    for first in range(0, args.races, BATCH):
        with scratch() as folder:
            record = Record()
            races = min(BATCH, args.races - first)
            failures += asyncio.run(race(folder, record, races, f"{args.seed}-{first}"))
            failures += judge(folder, record)
        for name, count in record.counts.items():
            counts[name] = counts.get(name, 0) + count
    counts["seconds"] = round(time.perf_counter() - began)
    finish("control_races", args.seed, counts, args.races, failures)


async def race(folder: Path, record: Record, races: int, seed: str) -> list[str]:
    """Let clients race until so many races are over; returns what is stuck."""
    place = Place(store=str(folder / "store.db"), ledger=str(folder / "effects"), socket="")
    numbers = itertools.count(1)
    left = itertools.count(1)
    async with open_runtime(place) as one, open_runtime(place) as two:
        nodes = [InProcessNode(one), InProcessNode(two)]
        clients = [Client(f"c{n}", nodes, record, f"{seed}-{n}", numbers) for n in range(CLIENTS)]

        async def work(client: Client) -> None:
            acts = (client.decide_twice, client.decide_and_cancel, client.decide_and_say)
            while (number := next(left)) <= races:
                await client.act(acts[number % len(acts)])

        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(work(client))
        await quiet(one.store)
    return [failure for client in clients for failure in client.failures]


def judge(folder: Path, record: Record) -> list[str]:
    """Compare what is left in the file with what clients were told."""
    file = StoreFile(folder / "store.db")
    try:
        ledger = Ledger(folder / "effects").read()
        return file.integrity_problems() + run_without_suspending(
            find_problems(file, record, ledger)
        )
    finally:
        file.shut()


if __name__ == "__main__":
    main()
