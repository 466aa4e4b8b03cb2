"""Search in memory: 100,000 facts of 1,000 users, the largest of whom has 10,000.

    python bench/memory.py                      facts by their words, in SQLite
    python bench/memory.py --vectors            and by vectors of 384 dimensions (a Python that can
                                                load extensions, with sqlite-vec)
    python bench/memory.py --file bench.db      keep the file, and search in it again next time

A Python that cannot load extensions says so with `--vectors`. Another one of the same version can
use the packages of the environment:

    PYTHONPATH=src:.venv/lib/python3.11/site-packages /usr/bin/python3 bench/memory.py --vectors

Prints the times of searches by users who are chosen by chance, of the largest user, and of
forgetting one fact: the time on the clock, and the processor time of the whole process, which
depends less on what else the machine does. With vectors it also prints the recall: which part of
the ten nearest vectors of an exact comparison the engine returns among its first ten. Embeddings
are random vectors: no model is asked, and no other data is harder to rank.
"""

import argparse
import asyncio
import heapq
import os
import random
import statistics
import tempfile
import time
from array import array
from collections.abc import Sequence
from pathlib import Path

from awaken.contracts.clock import SystemClock
from awaken.contracts.memory.records import FactSource, MemoryLimits, Partition, user_memory
from awaken.memory.service import MemoryService
from awaken.stores.sqlite.store import SqliteStore

USERS, FACTS, LARGEST, DIMENSIONS = 1_000, 100_000, 10_000, 384
WORDS = 20_000
RECALLED = 10
RECALL_QUERIES = 20


class Ids:
    def __init__(self) -> None:
        self._count = 0

    def new_id(self) -> str:
        self._count += 1
        return f"fact-{self._count:012d}"


class RandomVectors:
    model = "random/384"

    def __init__(self) -> None:
        self._chance = random.Random(2)
        self._pool = array("f", (self._chance.gauss(0, 1) for _ in range(1 << 18)))

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [self.make() for _ in texts]

    def make(self) -> bytes:
        at = self._chance.randrange(len(self._pool) - DIMENSIONS)
        return self._pool[at : at + DIMENSIONS].tobytes()

    async def close(self) -> None:
        return None


def sizes_of(users: int, facts: int, largest: int) -> list[int]:
    """The largest user, and the others alike."""
    rest = facts - largest
    return [largest, *(rest // (users - 1) + (n < rest % (users - 1)) for n in range(users - 1))]


def sentence(chance: random.Random, vocabulary: list[str]) -> str:
    # Few words are frequent and most are rare, as in any language.
    count = chance.randint(5, 16)
    picks = (int(WORDS * chance.random() ** 3) for _ in range(count))
    return " ".join(vocabulary[min(it, WORDS - 1)] for it in picks)


def report(name: str, times: list[tuple[float, float]]) -> None:
    clock, used = ([it[at] for it in times] for at in (0, 1))
    cuts = statistics.quantiles(clock, n=100)
    spent = statistics.quantiles(used, n=100)
    print(
        f"{name:<24} p50 {cuts[49]:7.2f} ms   p95 {cuts[94]:7.2f} ms   p99 {cuts[98]:7.2f} ms"
        f"   processor p50 {spent[49]:6.2f} ms   p95 {spent[94]:6.2f} ms"
    )


async def measure(
    book: object, owners: list[Partition], queries: list[str]
) -> list[tuple[float, float]]:
    times = []
    for owner, query in zip(owners, queries, strict=True):
        start, used = time.perf_counter(), time.process_time()
        await book.search(owner, query, limit=RECALLED)
        times.append(((time.perf_counter() - start) * 1000, (time.process_time() - used) * 1000))
    return times


async def measure_recall(
    memory: MemoryService, store: SqliteStore, owner: Partition, vectors: RandomVectors
) -> float:
    """Compare the nearest vectors that the engine returns with those of an exact comparison."""

    async def read(session: object) -> list[tuple[str, bytes]]:
        row = await session.one("memory_partition", owner.kind.value, owner.tenant, owner.name)
        return session._connection.execute(
            "SELECT i.item_id, v.vector FROM memory_vectors v JOIN memory_items i"
            " ON i.no = v.item_no WHERE v.partition_no = ?",
            row,
        ).fetchall()

    kept = [(item_id, array("f", vector)) for item_id, vector in await store._database.read(read)]
    lengths = {item_id: sum(x * x for x in vector) ** 0.5 for item_id, vector in kept}
    found, queries = 0, [vectors.make() for _ in range(RECALL_QUERIES)]
    for query in queries:
        asked = array("f", query)
        nearest = heapq.nlargest(
            RECALLED,
            kept,
            key=lambda it: sum(map(float.__mul__, it[1], asked)) / lengths[it[0]],
        )
        items = await memory.engine.search_vectors(owner, query, vectors.model, RECALLED)
        found += len({it.id for it in items} & {it[0] for it in nearest})
    return found / (RECALLED * RECALL_QUERIES)


async def fill(memory: MemoryService, owner: Partition, facts: list[str]) -> None:
    for at in range(0, len(facts), 500):
        await memory.facts.remember(owner, facts[at : at + 500], FactSource())


async def search(
    memory: MemoryService,
    owners: list[Partition],
    sizes: list[int],
    texts: dict[str, list[str]],
    searches: int,
) -> None:
    chance = random.Random(3)

    def query_for(owner: Partition) -> str:
        words = chance.choice(texts[owner.name]).split()
        return " ".join(chance.sample(words, min(4, len(words))))

    await measure(memory.facts, owners[:50], [query_for(it) for it in owners[:50]])
    for name, chosen in (
        ("any user", [chance.choice(owners) for _ in range(searches)]),
        ("users by their facts", chance.choices(owners, weights=sizes, k=searches)),
        ("the largest user", [owners[0]] * searches),
    ):
        report(name, await measure(memory.facts, chosen, [query_for(it) for it in chosen]))


async def forget(memory: MemoryService, owners: list[Partition]) -> None:
    chance, times = random.Random(4), []
    for owner in chance.sample(owners, 5):
        page = await memory.facts.list_facts(owner, limit=1)
        start = time.perf_counter()
        await memory.facts.forget(owner, page.items[0].id)
        times.append((time.perf_counter() - start) * 1000)
    print("forgetting one fact", " ".join(f"{it:.0f} ms" for it in times))


async def run(path: Path, asked: argparse.Namespace) -> None:
    chance, is_new = random.Random(1), not path.exists()
    vocabulary = [
        f"{chance.choice('bcdfgklmnprst')}{n:x}{chance.choice('aeiou')}" for n in range(WORDS)
    ]
    store = SqliteStore(path)
    await store.open()
    vectors = RandomVectors() if asked.vectors else None
    limits = MemoryLimits(facts_per_owner=LARGEST + 10)
    memory = MemoryService(
        store.open_memory(), store, SystemClock(), Ids(), embedder=vectors, limits=limits
    )
    support = await memory.read_vector_support()
    if asked.vectors and not support.is_there:
        raise SystemExit(support.reason)
    sizes = sizes_of(USERS, asked.facts, asked.facts * LARGEST // FACTS)
    owners = [user_memory("acme", f"user-{n}") for n in range(USERS)]
    texts, start = {}, time.perf_counter()
    for owner, size in zip(owners, sizes, strict=True):
        texts[owner.name] = [sentence(chance, vocabulary) for _ in range(size)]
        if is_new:
            await fill(memory, owner, texts[owner.name])
    took = time.perf_counter() - start
    print(f"{asked.facts} facts in {took:.1f} s, file {path.stat().st_size / 1e6:.0f} MB")
    await search(memory, owners, sizes, texts, asked.searches)
    if vectors is not None:
        recall = await measure_recall(memory, store, owners[0], vectors)
        print(f"recall of the {RECALLED} nearest, the largest user: {recall:.3f}")
    if asked.file is None:
        await forget(memory, owners)
    await store.close()
    print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--searches", type=int, default=1_000)
    parser.add_argument("--facts", type=int, default=FACTS)
    parser.add_argument("--file", type=Path)
    asked = parser.parse_args()
    if asked.file is not None:
        await run(asked.file, asked)
        return
    with tempfile.TemporaryDirectory() as folder:
        await run(Path(folder) / "bench.db", asked)


if __name__ == "__main__":
    asyncio.run(main())
