"""The vectors of large partitions, held in memory, where `sqlite-vec` compares them in one pass.

Comparing vectors row by row costs more for reading the rows than for the comparison. A table of
`sqlite-vec` has them side by side, but a process without the extension could not delete from one in
the file. So the file keeps plain rows, and this module keeps a copy of what is searched often. The
comparison is exact: a copy finds what the rows would.
"""

import sqlite3
import threading
import weakref
from collections import OrderedDict

from awaken.stores.sql.session import SqlSession

from .vectors import load_vectors

VECTOR_BYTES = 64 << 20
"""How much memory the copies of one store take at most."""
LARGE = 1_000
"""A partition with fewer vectors is compared row by row: that takes a millisecond."""
NEAREST_MAX = 4_096
"""How many neighbours `sqlite-vec` returns at most."""
FLOAT_BYTES = 4
ASKED_MAX = 1_000

Key = tuple[int, str, int]
"""A partition, the name of a model, and the length of its vectors."""
Near = list[tuple[int, float]]
"""Numbers of items with their distances, the nearest first."""


class VectorCopy:
    """The copy of one partition: which table has it, and what of the file is in it."""

    __slots__ = ("last_no", "revision", "size", "table")

    def __init__(self, table: str, revision: int) -> None:
        self.table = table
        self.revision = revision
        self.last_no = 0
        self.size = 0


class VectorTables:
    """Copies of partitions. Used by several reader threads; none waits for another."""

    def __init__(self, bytes_max: int = VECTOR_BYTES, large: int = LARGE) -> None:
        self._bytes_max = bytes_max
        self._large = large
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._copies: OrderedDict[Key, VectorCopy] = OrderedDict()
        self._asked: OrderedDict[Key, int] = OrderedDict()
        """Partitions that were searched without a copy, with their revisions."""
        self._made = 0

    @property
    def size(self) -> int:
        """How many bytes the copies take."""
        return sum(copy.size for copy in self._copies.values())

    async def search(
        self, session: SqlSession, partition_no: int, model: str, vector: bytes, limit: int
    ) -> Near | None:
        """Return the nearest items of a partition as `session` sees it, or None: compare the rows.

        A copy is made when a large partition is searched for the second time: making it takes ten
        times as long as one search.
        """
        if limit > NEAREST_MAX or not self._lock.acquire(blocking=False):
            return None
        try:
            key = partition_no, model, len(vector)
            copy = await self._find_copy(session, key)
            return None if copy is None else self._compare(copy, vector, limit)
        finally:
            self._lock.release()

    async def _find_copy(self, session: SqlSession, key: Key) -> VectorCopy | None:
        row = await session.one("memory_vector_revision", key[0])
        revision: int = 0 if row is None else row[0]
        copy = self._copies.get(key)
        if copy is not None and copy.revision != revision:
            self._drop(key)
            copy = None
        if copy is None:
            if not await self._is_wanted(session, key, revision):
                return None
            copy = self._copies[key] = self._make_copy(key, revision)
        try:
            await self._load_rows(session, key, copy)
        except BaseException:
            self._drop(key)
            raise
        self._copies.move_to_end(key)
        return self._fit(key)

    async def _is_wanted(self, session: SqlSession, key: Key, revision: int) -> bool:
        if self._asked.pop(key, None) == revision:
            return await session.one("memory_has_many", key[0], self._large - 1) is not None
        self._asked[key] = revision
        if len(self._asked) > ASKED_MAX:
            self._asked.popitem(last=False)
        return False

    def _make_copy(self, key: Key, revision: int) -> VectorCopy:
        if self._connection is None:
            self._connection = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False
            )
            weakref.finalize(self, self._connection.close)
            load_vectors(self._connection)
        self._made += 1
        table = f"copy_{self._made}"
        self._connection.execute(
            f"CREATE VIRTUAL TABLE {table} USING"
            f" vec0(vector float[{key[2] // FLOAT_BYTES}] distance_metric=cosine)"
        )
        return VectorCopy(table, revision)

    async def _load_rows(self, session: SqlSession, key: Key, copy: VectorCopy) -> None:
        """Add the rows that the file has and the copy has not: numbers only grow in a revision."""
        rows = await session.all("memory_list_vectors", *key, copy.last_no)
        if not rows:
            return
        assert self._connection is not None
        self._connection.execute("BEGIN")
        self._connection.executemany(
            f"INSERT INTO {copy.table} (rowid, vector) VALUES (?1, ?2)",
            rows,
        )
        self._connection.execute("COMMIT")
        copy.last_no = rows[-1][0]
        copy.size += len(rows) * key[2]

    def _fit(self, key: Key) -> VectorCopy | None:
        """Drop the copies that were used least until all fit; the one of `key` goes last."""
        while self.size > self._bytes_max:
            self._drop(next(iter(self._copies)))
        return self._copies.get(key)

    def _drop(self, key: Key) -> None:
        copy = self._copies.pop(key)
        assert self._connection is not None
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._connection.execute(f"DROP TABLE {copy.table}")

    def _compare(self, copy: VectorCopy, vector: bytes, limit: int) -> Near:
        assert self._connection is not None
        found: Near = self._connection.execute(
            f"SELECT rowid, distance FROM {copy.table} WHERE vector MATCH ?1 AND k = ?2",
            (vector, limit),
        ).fetchall()
        return sorted(found, key=lambda it: (it[1], it[0]))
