"""Kill two processes on one SQLite file, while clients decide, cancel, steer, write and delete.

`python -m tests.torture.control_kills --kills 2000`: the clocks of the two processes differ by
minutes, leases last a second. No client is told of a kill: what was not answered it asks the other
process for. In the end acknowledged means that it happened once, refused that it did not.
"""

import argparse
import asyncio
import itertools
import random
import time
from pathlib import Path

from .control_driver import Client, ProcessNode
from .control_model import Record
from .control_node import CONFIG, Place, open_runtime
from .control_races import judge
from .lanes import scratch
from .report import finish
from .runtime_worlds import quiet

CLIENTS = 10
SKEWS_MS = (0, -120_000)
BATCH = 100
"""Kills on one store; the judge reads a store whole."""
PAUSE_S = (0.02, 0.4)


def main() -> None:
    """Kill, and exit with 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="control_kills")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    began = time.perf_counter()
    counts: dict[str, int] = {}
    failures: list[str] = []
    for first in range(0, args.kills, BATCH):
        with scratch() as folder:
            record = Record()
            kills = min(BATCH, args.kills - first)
            failures += asyncio.run(kill_under_load(folder, record, kills, f"{args.seed}-{first}"))
            failures += judge(folder, record)
        for name, count in record.counts.items():
            counts[name] = counts.get(name, 0) + count
    counts["kills"] = args.kills
    counts["seconds"] = round(time.perf_counter() - began)
    finish("control_kills", args.seed, counts, args.kills, failures)


async def kill_under_load(folder: Path, record: Record, kills: int, seed: str) -> list[str]:
    """Kill so often while clients work, and wait until nothing is left to do."""
    nodes = [
        ProcessNode(
            Place(
                store=str(folder / "store.db"),
                ledger=str(folder / "effects"),
                socket=str(folder / f"node{number}"),
                skew_ms=skew_ms,
            )
        )
        for number, skew_ms in enumerate(SKEWS_MS)
    ]
    numbers = itertools.count(1)
    clients = [Client(f"c{n}", nodes, record, f"{seed}-{n}", numbers) for n in range(CLIENTS)]
    stopped = asyncio.Event()
    dice = random.Random(seed)
    try:
        for node in nodes:
            await node.start()
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.work_until(stopped))
            for _ in range(kills):
                await asyncio.sleep(dice.uniform(*PAUSE_S))
                victim = dice.choice(nodes)
                await victim.kill()
                await asyncio.sleep(dice.choice((0, 0, CONFIG.lease_ms / 1000)))
                await victim.start()
            stopped.set()
        return [*(it for client in clients for it in client.failures), *await _rest(nodes)]
    finally:
        for node in nodes:
            await node.kill()


async def _rest(nodes: list[ProcessNode]) -> list[str]:
    """Wait until the processes have nothing left to do."""
    async with open_runtime(nodes[0].place, has_worker=False) as runtime:
        try:
            await quiet(runtime.store)
        except TimeoutError:
            return ["something is left, and no process does it"]
    return []


if __name__ == "__main__":
    main()
