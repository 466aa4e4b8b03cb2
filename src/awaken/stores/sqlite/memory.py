"""Facts and passages in a SQLite file: words in FTS5, vectors by `sqlite-vec` where it loads."""

import asyncio
from collections.abc import Sequence

from awaken.contracts.memory.engine import VectorSupport
from awaken.stores.sql.memory import SqlMemoryEngine, mark_terms
from awaken.stores.sql.session import Row, SqlSession
from awaken.stores.sql.statements import read_statements

from .connection import STATEMENTS, SqliteSession
from .database import SqliteDatabase

MERGE_PAGES = 64
"""How much of the index of words one transaction rewrites: others write in between."""
MERGE_STEPS = 100_000
CHECKPOINT_TRIES = 5
PAUSE_S = 0.05

_COLUMNS = "i.no, i.item_id, i.group_id, i.position, i.body"
_OWN = {
    # Overwrites deleted rows with zeros. A connection that is opened anew has it off again.
    "memory_secure": "PRAGMA secure_delete = ON",
    # Made when the first item is kept: few files have memory, and few SQLite libraries no FTS5.
    "memory_make_index": (
        "CREATE VIRTUAL TABLE IF NOT EXISTS memory_terms"
        " USING fts5(terms, tokenize = 'unicode61 remove_diacritics 0')"
    ),
    "memory_has_index": "SELECT 1 FROM sqlite_master WHERE name = 'memory_terms'",
    "memory_add_terms": "INSERT INTO memory_terms (rowid, terms) VALUES (?1, ?2)",
    "memory_delete_terms": "DELETE FROM memory_terms WHERE rowid = ?1",
    "memory_search": (
        f"SELECT {_COLUMNS} FROM"
        " (SELECT rowid AS item_no, rank AS score FROM memory_terms WHERE memory_terms MATCH ?1"
        "  ORDER BY rank LIMIT ?4) t"
        " JOIN memory_items i ON i.no = t.item_no"
        " WHERE i.partition_no = ?2 AND (i.expires_at IS NULL OR i.expires_at > ?3)"
        " ORDER BY t.score, i.no"
    ),
    "memory_search_vectors": (
        f"SELECT {_COLUMNS} FROM"
        " (SELECT item_no, vec_distance_cosine(vector, ?2) AS distance FROM memory_vectors"
        "  WHERE partition_no = ?1 AND model = ?3 AND length(vector) = length(?2)"
        "  ORDER BY distance LIMIT ?5) v"
        " JOIN memory_items i ON i.no = v.item_no"
        " WHERE i.partition_no = ?1 AND (i.expires_at IS NULL OR i.expires_at > ?4)"
        " ORDER BY v.distance, i.no"
    ),
    "memory_begin_merge": "INSERT INTO memory_terms (memory_terms, rank) VALUES ('merge', ?1)",
    "memory_changes": "SELECT total_changes()",
}
STATEMENTS.update(
    {
        name: text.replace("$", "?")
        for name, text in read_statements("memory.sql", for_update="").items()
    }
    | _OWN
)


class SqliteMemoryEngine(SqlMemoryEngine):
    """A `MemoryEngine` in the file of the store."""

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__(database)
        self._file = database

    async def _prepare(self, session: SqlSession) -> None:
        await session.one("memory_secure")
        if await session.one("memory_has_index") is None:
            await session.run("memory_make_index")

    async def _index(self, session: SqlSession, item_no: int, terms: Sequence[str]) -> None:
        await session.run("memory_add_terms", item_no, " ".join(terms))

    async def _unindex(self, session: SqlSession, item_no: int) -> None:
        await session.run("memory_delete_terms", item_no)

    async def _find_words(
        self, session: SqlSession, partition_no: int, terms: Sequence[str], limit: int
    ) -> Sequence[Row]:
        if await session.one("memory_has_index") is None:
            return ()
        # Each word is quoted, and has letters and digits only: nothing of it is query syntax.
        words = " OR ".join(f'"{word}"' for word in mark_terms(partition_no, terms))
        now = (await session.now()).wall_ms
        return await session.all("memory_search", words, partition_no, now, limit)

    async def _find_near(
        self, session: SqlSession, partition_no: int, vector: bytes, model: str, limit: int
    ) -> Sequence[Row]:
        assert isinstance(session, SqliteSession)
        if session.load_vectors():
            return ()
        now = (await session.now()).wall_ms
        return await session.all("memory_search_vectors", partition_no, vector, model, now, limit)

    async def read_vector_support(self) -> VectorSupport:
        """Tell whether `sqlite-vec` can be loaded."""

        async def work(session: SqlSession) -> str:
            assert isinstance(session, SqliteSession)
            return session.load_vectors()

        reason = await self._database.read(work)
        return VectorSupport(is_there=not reason, reason=reason)

    async def erase_deleted(self) -> bool:
        """Overwrite the bytes of deleted items in the tables, the index and the log.

        The index of words keeps deleted words in older segments until all are merged into one.
        """

        async def begin(session: SqlSession) -> bool:
            await session.one("memory_secure")
            if await session.one("memory_has_index") is None:
                return False
            return await _merge(session, -MERGE_PAGES)

        async def go_on(session: SqlSession) -> bool:
            await session.one("memory_secure")
            return await _merge(session, MERGE_PAGES)

        is_busy, steps = await self._database.write(begin), 0
        while is_busy and steps < MERGE_STEPS:
            steps += 1
            is_busy = await self._database.write(go_on)
        for attempt in range(CHECKPOINT_TRIES):
            if await self._file.checkpoint():
                return not is_busy
            await asyncio.sleep(PAUSE_S * (attempt + 1))
        return False


async def _merge(session: SqlSession, pages: int) -> bool:
    """Merge a part of the index; returns whether there may be more to merge."""
    before = await session.one("memory_changes")
    await session.run("memory_begin_merge", pages)
    after = await session.one("memory_changes")
    assert before is not None
    assert after is not None
    # SQLite counts the command itself as one change.
    has_more: bool = after[0] - before[0] >= 2
    return has_more
