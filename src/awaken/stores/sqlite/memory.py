"""Facts and passages in a SQLite file: words in FTS5, vectors by `sqlite-vec` where it loads."""

import asyncio
from collections.abc import Sequence

from awaken.contracts.memory.engine import VectorSupport
from awaken.stores.sql.memory import mark_terms
from awaken.stores.sql.session import Row, SqlSession
from awaken.stores.sql.statements import read_statements

from .connection import STATEMENTS, SqliteSession
from .database import SqliteDatabase
from .vector_tables import VectorTables

MERGE_PAGES = 64
"""How much of the index of words one transaction rewrites: others write in between."""
MERGE_STEPS = 100_000
CHECKPOINT_TRIES = 5
PAUSE_S = 0.05

_REVISE = (
    "INSERT INTO memory_revisions VALUES ({}.partition_no, 1)"
    " ON CONFLICT (partition_no) DO UPDATE SET revision = revision + 1"
)
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
    "memory_make_revisions": (
        "CREATE TABLE IF NOT EXISTS memory_revisions"
        " (partition_no INTEGER PRIMARY KEY, revision INTEGER NOT NULL)"
    ),
    # Triggers, because a process that compares no vectors deletes them as well.
    "memory_watch_deleted": (
        "CREATE TRIGGER IF NOT EXISTS memory_vector_deleted AFTER DELETE ON memory_vectors"
        f" BEGIN {_REVISE.format('OLD')}; END"
    ),
    "memory_watch_added": (
        "CREATE TRIGGER IF NOT EXISTS memory_vector_added AFTER INSERT ON memory_vectors"
        " WHEN EXISTS (SELECT 1 FROM memory_vectors"
        "  WHERE partition_no = NEW.partition_no AND item_no > NEW.item_no)"
        f" BEGIN {_REVISE.format('NEW')}; END"
    ),
    "memory_has_revisions": "SELECT 1 FROM sqlite_master WHERE name = 'memory_vector_added'",
    "memory_add_terms": "INSERT INTO memory_terms (rowid, terms) VALUES (?1, ?2)",
    "memory_delete_terms": "DELETE FROM memory_terms WHERE rowid = ?1",
    "memory_search": (
        f"SELECT {_COLUMNS} FROM"
        " (SELECT rowid AS item_no, rank AS score FROM memory_terms WHERE memory_terms MATCH ?1"
        "  ORDER BY rank LIMIT ?4) t"
        " JOIN memory_items i ON i.no = t.item_no"
        " WHERE i.partition_no = ?2 AND (i.expires_at IS NULL OR i.expires_at > ?3)"
        " ORDER BY t.score, i.no LIMIT ?5"
    ),
    # Changes when the vectors of a partition change otherwise than by newer ones.
    "memory_vector_revision": "SELECT revision FROM memory_revisions WHERE partition_no = ?1",
    "memory_has_many": "SELECT 1 FROM memory_items WHERE partition_no = ?1 LIMIT 1 OFFSET ?2",
    "memory_list_vectors": (
        "SELECT item_no, vector FROM memory_vectors"
        " WHERE partition_no = ?1 AND model = ?2 AND length(vector) = ?3 AND item_no > ?4"
        " ORDER BY item_no"
    ),
    "memory_find_no": (
        f"SELECT {_COLUMNS} FROM memory_items i"
        " WHERE i.no = ?1 AND i.partition_no = ?2 AND (i.expires_at IS NULL OR i.expires_at > ?3)"
    ),
    "memory_search_vectors": (
        f"SELECT {_COLUMNS} FROM"
        " (SELECT item_no, vec_distance_cosine(vector, ?2) AS distance FROM memory_vectors"
        "  WHERE partition_no = ?1 AND model = ?3 AND length(vector) = length(?2)"
        "  ORDER BY distance LIMIT ?5) v"
        " JOIN memory_items i ON i.no = v.item_no"
        " WHERE i.partition_no = ?1 AND (i.expires_at IS NULL OR i.expires_at > ?4)"
        " ORDER BY v.distance, i.no LIMIT ?6"
    ),
    # What has expired is deleted within minutes: few rows of all partitions are in this index.
    "memory_count_expired": (
        "SELECT count(*) FROM memory_items INDEXED BY memory_items_expiry"
        " WHERE expires_at <= ?2 AND partition_no = ?1"
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


class SqliteMemoryIndex:
    """A `MemoryIndex` in the file of the store."""

    def __init__(self, database: SqliteDatabase, copies: VectorTables | None = None) -> None:
        self._database = database
        self._copies = copies or VectorTables()

    async def prepare(self, session: SqlSession) -> None:
        """Prepare a transaction that writes."""
        await session.one("memory_secure")
        if await session.one("memory_has_revisions") is None:
            await session.run("memory_make_index")
            await session.run("memory_make_revisions")
            await session.run("memory_watch_deleted")
            await session.run("memory_watch_added")

    async def add_words(self, session: SqlSession, item_no: int, words: Sequence[str]) -> None:
        """Index the words of a new item."""
        await session.run("memory_add_terms", item_no, " ".join(words))

    async def remove_words(self, session: SqlSession, item_no: int) -> None:
        """Remove the words of an item."""
        await session.run("memory_delete_terms", item_no)

    async def find_words(
        self, session: SqlSession, partition_no: int, terms: Sequence[str], limit: int
    ) -> Sequence[Row]:
        """Return the rows of items that have one of the words, the best first."""
        if await session.one("memory_has_index") is None:
            return ()
        # Each word is quoted, and has letters and digits only: nothing of it is query syntax.
        words = " OR ".join(f'"{word}"' for word in mark_terms(partition_no, terms))
        now = (await session.now()).wall_ms
        depth = limit + await _count_expired(session, partition_no, now)
        return await session.all("memory_search", words, partition_no, now, depth, limit)

    async def find_near(
        self, session: SqlSession, partition_no: int, vector: bytes, model: str, limit: int
    ) -> Sequence[Row]:
        """Return the rows of items with the nearest vectors."""
        assert isinstance(session, SqliteSession)
        if session.load_vectors():
            return ()
        now = (await session.now()).wall_ms
        depth = limit + await _count_expired(session, partition_no, now)
        near = None
        if await session.one("memory_has_revisions") is not None:
            near = await self._copies.search(session, partition_no, model, vector, depth)
        if near is None:
            return await session.all(
                "memory_search_vectors", partition_no, vector, model, now, depth, limit
            )
        rows = [await session.one("memory_find_no", no, partition_no, now) for no, _ in near]
        return [row for row in rows if row is not None][:limit]

    def encode_vector(self, vector: bytes) -> bytes:
        """Return a vector as its column keeps it."""
        return vector

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
            if await self._database.checkpoint():
                return not is_busy
            await asyncio.sleep(PAUSE_S * (attempt + 1))
        return False


async def _count_expired(session: SqlSession, partition_no: int, now: int) -> int:
    """Count what has expired and is not deleted yet: a ranking is cut after these are left out."""
    row = await session.one("memory_count_expired", partition_no, now)
    assert row is not None
    count: int = row[0]
    return count


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
