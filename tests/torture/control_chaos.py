"""Three processes on one Postgres, under kills, freezes, cuts, crash-restarts and lost replies.

`python -m tests.torture.control_chaos --faults 500`: clients decide, cancel, steer, write and
delete through all three; leases last a second, a frozen process sleeps for three. In the end
acknowledged means that it happened once, refused that it did not.
"""

import argparse
import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.postgres.proxy import Proxy, proxied
from tests.postgres.server import new_schema, server

from awaken.stores.postgres import PostgresStore

from .control_driver import Client, Numbers, ProcessNode
from .control_model import Record, find_problems
from .control_node import LEASE_MS, Place
from .history import Ledger
from .lanes import scratch
from .pg_evidence import PgEvidence
from .report import finish
from .runtime_worlds import quiet

PROCESSES = 3
CLIENTS = 8
SKEWS_MS = (0, -60_000, 60_000)
FAULTS = ("kill", "kill", "kill", "cut", "cut", "lose reply", "lose reply", "restart", "freeze")
PAUSE_S = (0.05, 0.5)
BATCH = 100
"""Faults on one schema; the judge reads a schema whole."""


def main() -> None:
    """Do harm, and exit with 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="control_chaos")
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    # It takes its time to begin, and no connection should time out over that.
    server().sync_to_disk()
    began = time.perf_counter()
    counts: Counter[str] = Counter()
    failures: list[str] = []
    for first in range(0, args.faults, BATCH):
        with scratch() as folder:
            chaos = Chaos(folder, f"{args.seed}-{first}")
            failures += asyncio.run(chaos.play(min(BATCH, args.faults - first)))
        counts.update(chaos.record.counts)
        counts.update(chaos.done)
    counts["seconds"] = round(time.perf_counter() - began)
    finish("control_chaos", args.seed, counts, args.faults, failures)


class Chaos:
    """One schema, some processes, and what happens to them."""

    processes = PROCESSES

    def __init__(self, folder: Path, seed: str) -> None:
        self.record = Record()
        self.done: Counter[str] = Counter()
        self._folder = folder
        self._seed = seed
        self._dice = random.Random(seed)
        self._schema = new_schema()

    async def play(self, faults: int) -> list[str]:
        """Work under so many faults; returns what was broken."""
        async with self._store():
            # The schema is made before anything goes wrong.
            pass
        async with proxied() as proxy:
            nodes = [
                ProcessNode(self.place_node(proxy, number)) for number in range(self.processes)
            ]
            try:
                failures = await self._work(nodes, proxy, faults)
                async with self._store() as store:
                    failures += await _rest(store)
            finally:
                for node in nodes:
                    await node.kill()
        async with self._store() as store:
            return failures + await self.judge(PgEvidence(store, self._schema))

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[PostgresStore]:
        """The judge's own way to the server."""
        store = PostgresStore(server().url, schema=self._schema)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    def place_node(self, proxy: Proxy, number: int) -> Place:
        """Say where one of the processes works."""
        return Place(
            store=proxy.url,
            schema=self._schema,
            ledger=str(self._folder / "effects"),
            socket=str(self._folder / f"node{number}"),
            skew_ms=SKEWS_MS[number],
        )

    def make_client(self, number: int, nodes: list[ProcessNode], numbers: Numbers) -> Client:
        """Make one of the clients."""
        return Client(f"c{number}", nodes, self.record, f"{self._seed}-{number}", numbers)

    def list_faults(self, count: int) -> list[str]:
        """Choose what happens, in order."""
        return [self._dice.choice(FAULTS) for _ in range(count)]

    async def judge(self, evidence: PgEvidence) -> list[str]:
        """Say what is wrong when nothing is left to do."""
        ledger = Ledger(self._folder / "effects").read()
        return await find_problems(evidence, self.record, ledger)

    async def _work(self, nodes: list[ProcessNode], proxy: Proxy, faults: int) -> list[str]:
        numbers, stopped = itertools.count(1), asyncio.Event()
        clients = [self.make_client(n, nodes, numbers) for n in range(CLIENTS)]
        for node in nodes:
            await node.start()
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.work_until(stopped))
            for fault in self.list_faults(faults):
                await asyncio.sleep(self._dice.uniform(*PAUSE_S))
                self.done[f"faults: {fault}"] += 1
                await self.harm(fault, nodes, proxy)
            proxy.cut = None
            stopped.set()
        return [it for client in clients for it in client.failures]

    async def harm(self, fault: str, nodes: list[ProcessNode], proxy: Proxy) -> None:
        """Do one thing to one of them, or to what they share."""
        victim = self._dice.choice(nodes)
        match fault:
            case "kill":
                await victim.kill()
                await victim.start()
            case "freeze":
                await victim.freeze(LEASE_MS * 3 / 1000)
            case "cut":
                proxy.abort_all()
            case "lose reply":
                proxy.cut = self._dice.choice(("after", "after", "before"))
            case "restart":
                await asyncio.to_thread(server().restart)


async def _rest(store: PostgresStore) -> list[str]:
    try:
        await quiet(store)
    except TimeoutError:
        return ["something is left, and no process does it"]
    return []


if __name__ == "__main__":
    main()
