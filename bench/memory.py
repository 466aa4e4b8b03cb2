"""Search in memory: 100,000 facts of 1,000 users, the largest of whom has 10,000.

    python bench/memory.py                      facts by their words, in SQLite
    python bench/memory.py --vectors            and by vectors of 384 dimensions (a Python that can
                                                load extensions, with sqlite-vec)

Prints the times of searches by users who are chosen by chance, of the largest user, and of
forgetting one fact. Embeddings are random vectors: no model is asked.
"""

import argparse
import asyncio
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


class Ids:
    def __init__(self) -> None:
        self._count = 0

    def new_id(self) -> str:
        self._count += 1
        return f"fact-{self._count:012d}"


class RandomVectors:
    model = "random/384"

    def __init__(self, chance: random.Random) -> None:
        self._pool = array("f", (chance.gauss(0, 1) for _ in range(1 << 18)))
        self._chance = chance

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        last = len(self._pool) - DIMENSIONS
        starts = (self._chance.randrange(last) for _ in texts)
        return [self._pool[at : at + DIMENSIONS].tobytes() for at in starts]

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


def report(name: str, times: list[float]) -> None:
    cuts = statistics.quantiles(times, n=100)
    print(f"{name:<32} p50 {cuts[49]:7.2f} ms   p95 {cuts[94]:7.2f} ms   p99 {cuts[98]:7.2f} ms")


async def measure(book: object, owners: list[Partition], queries: list[str]) -> list[float]:
    times = []
    for owner, query in zip(owners, queries, strict=True):
        start = time.perf_counter()
        await book.search(owner, query, limit=10)
        times.append((time.perf_counter() - start) * 1000)
    return times


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--searches", type=int, default=1_000)
    parser.add_argument("--facts", type=int, default=FACTS)
    asked = parser.parse_args()
    chance = random.Random(1)
    vocabulary = [
        f"{chance.choice('bcdfgklmnprst')}{n:x}{chance.choice('aeiou')}" for n in range(WORDS)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        store = SqliteStore(path)
        await store.open()
        embedder = RandomVectors(chance) if asked.vectors else None
        limits = MemoryLimits(facts_per_owner=LARGEST + 10)
        memory = MemoryService(
            store.open_memory(), store, SystemClock(), Ids(), embedder=embedder, limits=limits
        )
        support = await memory.read_vector_support()
        if asked.vectors and not support.is_there:
            raise SystemExit(support.reason)
        sizes = sizes_of(USERS, asked.facts, asked.facts * LARGEST // FACTS)
        owners = [user_memory("acme", f"user-{n}") for n in range(USERS)]
        texts = {}
        start = time.perf_counter()
        for owner, size in zip(owners, sizes, strict=True):
            facts = [sentence(chance, vocabulary) for _ in range(size)]
            texts[owner.name] = facts
            for at in range(0, size, 500):
                await memory.facts.remember(owner, facts[at : at + 500], FactSource())
        took = time.perf_counter() - start
        print(f"{asked.facts} facts in {took:.1f} s, file {path.stat().st_size / 1e6:.0f} MB")

        def query_for(owner: Partition) -> str:
            words = chance.choice(texts[owner.name]).split()
            return " ".join(chance.sample(words, min(4, len(words))))

        await measure(memory.facts, owners[:50], [query_for(it) for it in owners[:50]])
        chosen = [chance.choice(owners) for _ in range(asked.searches)]
        report("any user", await measure(memory.facts, chosen, [query_for(it) for it in chosen]))
        weighted = chance.choices(owners, weights=sizes, k=asked.searches)
        report(
            "users by their facts",
            await measure(memory.facts, weighted, [query_for(it) for it in weighted]),
        )
        largest = [owners[0]] * asked.searches
        report(
            "the largest user",
            await measure(memory.facts, largest, [query_for(it) for it in largest]),
        )
        times = []
        for _ in range(5):
            page = await memory.facts.list_facts(chance.choice(owners), limit=1)
            owner = next(it for it in owners if page.items[0].text in texts[it.name])
            start = time.perf_counter()
            await memory.facts.forget(owner, page.items[0].id)
            times.append((time.perf_counter() - start) * 1000)
        print("forgetting one fact", " ".join(f"{it:.0f} ms" for it in times))
        await store.close()


if __name__ == "__main__":
    asyncio.run(main())
