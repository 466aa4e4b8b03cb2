"""Copies of vectors in memory find what the rows of the file would, whatever happened to the rows.

They need a Python that loads extensions. Where the Python of these tests does not, the last test
runs this file with one that does.
"""

import asyncio
import os
import random
import sqlite3
import subprocess
import sysconfig
from array import array
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.unit.memory.test_documents import LOADING_PYTHON, ROOT, find_loading_python

from awaken.contracts.memory.engine import MemoryItem
from awaken.contracts.memory.records import Partition, user_memory
from awaken.stores.sql.memory import SqlMemoryEngine
from awaken.stores.sqlite.memory import SqliteMemoryIndex
from awaken.stores.sqlite.store import SqliteStore
from awaken.stores.sqlite.vector_tables import VectorTables

DIMENSIONS, ITEMS, NEAREST = 48, 400, 10
ANN, BOB = user_memory("acme", "ann"), user_memory("acme", "bob")
CAN_LOAD = hasattr(sqlite3.Connection, "enable_load_extension")
loads_extensions = pytest.mark.skipif(not CAN_LOAD, reason="this Python loads no extensions")


class Vectors:
    """Two engines on one file, as two processes have them, and what the first one must find."""

    def __init__(self, path: Path, *, bytes_max: int = 1 << 24) -> None:
        self.chance = random.Random(7)
        self.stores = [SqliteStore(path), SqliteStore(path)]
        self.copies = [VectorTables(bytes_max, large=100) for _ in self.stores]
        self.engines = [
            SqlMemoryEngine(store.database, SqliteMemoryIndex(store.database, copies))
            for store, copies in zip(self.stores, self.copies, strict=True)
        ]
        self.kept: dict[Partition, dict[str, bytes]] = {ANN: {}, BOB: {}}
        self._made = 0

    def make_vector(self) -> bytes:
        return array("f", (self.chance.gauss(0, 1) for _ in range(DIMENSIONS))).tobytes()

    def make_item(self, item_id: str, vector: bytes | None, expires_at: int | None = None):
        self._made += 1
        return MemoryItem(
            id=item_id,
            text=item_id,
            terms=(item_id,),
            digest=f"digest {self._made}",
            body=b"{}",
            expires_at=expires_at,
            vector=vector,
            model="test" if vector is not None else "",
        )

    async def add(self, at: int, owner: Partition, count: int) -> None:
        added = {f"i{self._made + n}": self.make_vector() for n in range(count)}
        items = [self.make_item(*it) for it in added.items()]
        await self.engines[at].add(owner, items, limit=100_000)
        self.kept[owner] |= added

    async def delete(self, at: int, owner: Partition, item_id: str) -> None:
        await self.engines[at].delete(owner, [item_id])
        del self.kept[owner][item_id]

    async def change(self, at: int, owner: Partition, item_id: str) -> None:
        self.kept[owner][item_id] = vector = self.make_vector()
        assert await self.engines[at].update(owner, self.make_item(item_id, vector))

    async def measure_recall(self, owner: Partition, queries: int = 5) -> float:
        """Compare the first engine with an exact comparison; it has a copy from the third on."""
        found = 0
        for _ in range(queries):
            query = self.make_vector()
            nearest = sorted(self.kept[owner], key=lambda it: _angle(self.kept[owner][it], query))
            items = await self.engines[0].search_vectors(owner, query, "test", NEAREST)
            assert len(items) == min(NEAREST, len(self.kept[owner]))
            found += len({it.id for it in items} & set(nearest[:NEAREST]))
        return found / (queries * min(NEAREST, len(self.kept[owner])))


def _angle(one: bytes, other: bytes) -> float:
    left, right = array("f", one), array("f", other)
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return -product / (sum(a * a for a in left) * sum(b * b for b in right)) ** 0.5


def run(path: Path, check: Callable[[Vectors], Awaitable[None]], bytes_max: int = 1 << 24) -> None:
    async def checked() -> None:
        vectors = Vectors(path / "a.db", bytes_max=bytes_max)
        for store in vectors.stores:
            await store.open()
        try:
            await vectors.add(0, ANN, ITEMS)
            await vectors.add(0, BOB, 3)
            await check(vectors)
        finally:
            for store in vectors.stores:
                await store.close()

    asyncio.run(checked())


@loads_extensions
def test_a_copy_finds_the_nearest(tmp_path: Path) -> None:
    async def check(vectors: Vectors) -> None:
        assert await vectors.measure_recall(ANN) >= 0.99
        assert vectors.copies[0].size == ITEMS * DIMENSIONS * 4
        # A small partition has none.
        assert await vectors.measure_recall(BOB) >= 0.99
        assert vectors.copies[0].size == ITEMS * DIMENSIONS * 4

    run(tmp_path, check)


@loads_extensions
@pytest.mark.parametrize("writer", [0, 1], ids=["same process", "other process"])
def test_a_copy_has_what_is_added_changed_and_deleted(tmp_path: Path, writer: int) -> None:
    async def check(vectors: Vectors) -> None:
        await vectors.measure_recall(ANN)
        for _ in range(4):
            await vectors.add(writer, ANN, 25)
            assert await vectors.measure_recall(ANN) >= 0.99
            await vectors.change(writer, ANN, vectors.chance.choice(list(vectors.kept[ANN])))
            assert await vectors.measure_recall(ANN) >= 0.99
            # The newest is deleted and its number used again.
            await vectors.delete(writer, ANN, list(vectors.kept[ANN])[-1])
            await vectors.add(writer, ANN, 1)
            assert await vectors.measure_recall(ANN) >= 0.99
        # One that had no vector gets one, although newer ones are in the copy.
        bare = vectors.make_item("bare", None)
        await vectors.engines[writer].add(ANN, [bare], limit=100_000)
        await vectors.add(writer, ANN, 1)
        await vectors.measure_recall(ANN)
        await vectors.change(writer, ANN, "bare")
        (nearest,) = await vectors.engines[0].search_vectors(
            ANN, vectors.kept[ANN]["bare"], "test", 1
        )
        assert nearest.id == "bare"

    run(tmp_path, check)


@loads_extensions
def test_a_partition_that_is_made_anew_finds_nothing_of_the_one_before(tmp_path: Path) -> None:
    async def check(vectors: Vectors) -> None:
        await vectors.measure_recall(ANN)
        await vectors.engines[1].clear(BOB)
        await vectors.engines[1].clear(ANN)
        vectors.kept[ANN].clear()
        # It may get the number of the one that was cleared.
        vectors.kept[BOB].clear()
        await vectors.add(1, BOB, ITEMS)
        assert await vectors.measure_recall(BOB) >= 0.99
        assert await vectors.engines[0].search_vectors(ANN, vectors.make_vector(), "test", 5) == ()

    run(tmp_path, check)


@loads_extensions
def test_expired_items_take_no_place_of_others(tmp_path: Path) -> None:
    async def check(vectors: Vectors) -> None:
        query = vectors.make_vector()
        # Nearer than all others, and expired long ago.
        old = [vectors.make_item(f"old {n}", query, expires_at=1) for n in range(30)]
        await vectors.engines[0].add(ANN, old, limit=100_000)
        for _ in range(4):
            items = await vectors.engines[0].search_vectors(ANN, query, "test", NEAREST)
            assert len(items) == NEAREST
        assert vectors.copies[0].size

    run(tmp_path, check)


@loads_extensions
def test_copies_stay_within_their_bytes(tmp_path: Path) -> None:
    one = ITEMS * DIMENSIONS * 4

    async def check(vectors: Vectors) -> None:
        await vectors.add(0, BOB, ITEMS)
        for owner in (ANN, BOB, ANN):
            assert await vectors.measure_recall(owner) >= 0.99
            assert 0 < vectors.copies[0].size <= one + 10_000
        await vectors.add(0, ANN, ITEMS)
        assert await vectors.measure_recall(ANN) >= 0.99
        assert vectors.copies[0].size == 0

    run(tmp_path, check, bytes_max=one + 10_000)


def test_a_python_that_loads_extensions_passes() -> None:
    if CAN_LOAD:
        return
    if (reason := find_loading_python()) is not None:
        pytest.skip(reason)
    paths = [str(ROOT), str(ROOT / "src"), sysconfig.get_paths()["purelib"]]
    done = subprocess.run(
        [LOADING_PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert done.stdout.startswith("......."), done.stdout[-500:]
