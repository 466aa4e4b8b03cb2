"""Facts and passages in Postgres: words by full text search, vectors by `pgvector`."""

from array import array
from collections.abc import Sequence

from awaken.contracts.memory.engine import VectorSupport
from awaken.stores.sql.memory import mark_terms
from awaken.stores.sql.session import Row, SqlSession
from awaken.stores.sql.statements import read_statements

from .database import PostgresDatabase
from .texts import STATEMENTS

_TABLES = ("memory_items", "memory_terms", "memory_vectors", "memory_marks", "memory_partitions")
_COLUMNS = "i.no, i.item_id, i.group_id, i.position, i.body"
_OWN = {
    "memory_add_terms": (
        "INSERT INTO memory_terms (item_no, terms)"
        " VALUES ($1, array_to_tsvector(string_to_array($2, ' ')))"
    ),
    "memory_delete_terms": "DELETE FROM memory_terms WHERE item_no = $1",
    "memory_search": (
        f"SELECT {_COLUMNS} FROM memory_terms t JOIN memory_items i ON i.no = t.item_no"
        " WHERE t.terms @@ $1::text::tsquery AND i.partition_no = $2"
        " AND (i.expires_at IS NULL OR i.expires_at > $3)"
        " ORDER BY ts_rank(t.terms, $1::text::tsquery) DESC, i.no LIMIT $4"
    ),
    "memory_vector_schema": (
        "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace"
        " WHERE e.extname = 'vector'"
    ),
    "memory_can_have_vectors": "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'",
}
STATEMENTS.update(read_statements("memory.sql", for_update="FOR UPDATE") | _OWN)

NOT_AVAILABLE = "the server has no pgvector; search is lexical (install it on the server)"
NOT_CREATED = (
    "pgvector is installed but not enabled; search is lexical (run CREATE EXTENSION vector)"
)


class PostgresMemoryIndex:
    """A `MemoryIndex` in the database of the store."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def prepare(self, session: SqlSession) -> None:
        """Prepare nothing: the tables are there."""

    async def add_words(self, session: SqlSession, item_no: int, words: Sequence[str]) -> None:
        """Index the words of a new item."""
        await session.run("memory_add_terms", item_no, " ".join(dict.fromkeys(words)))

    async def remove_words(self, session: SqlSession, item_no: int) -> None:
        """Remove the words of an item."""
        await session.run("memory_delete_terms", item_no)

    async def find_words(
        self, session: SqlSession, partition_no: int, terms: Sequence[str], limit: int
    ) -> Sequence[Row]:
        """Return the rows of items that have one of the words, the best first."""
        # Each word is quoted, and has letters and digits only: nothing of it is query syntax.
        words = " | ".join(f"'{word}'" for word in mark_terms(partition_no, terms))
        now = (await session.now()).wall_ms
        return await session.all("memory_search", words, partition_no, now, limit)

    async def find_near(
        self, session: SqlSession, partition_no: int, vector: bytes, model: str, limit: int
    ) -> Sequence[Row]:
        """Return the rows of items with the nearest vectors."""
        row = await session.one("memory_vector_schema")
        if row is None:
            return ()
        now = (await session.now()).wall_ms
        return await session.all(
            _vector_search(row[0]), partition_no, _read_floats(vector), model, now, limit
        )

    def encode_vector(self, vector: bytes) -> list[float]:
        """Return a vector as its column keeps it."""
        return _read_floats(vector)

    async def read_vector_support(self) -> VectorSupport:
        """Tell whether the database has `pgvector`."""

        async def work(session: SqlSession) -> str:
            if await session.one("memory_vector_schema") is not None:
                return ""
            can_have = await session.one("memory_can_have_vectors") is not None
            return NOT_CREATED if can_have else NOT_AVAILABLE

        reason = await self._database.read(work)
        return VectorSupport(is_there=not reason, reason=reason)

    async def erase_deleted(self) -> bool:
        """Overwrite the bytes of deleted items: the tables of memory are written anew.

        A plain VACUUM leaves the bytes of deleted rows in the free space of their pages.
        """
        return await self._database.rewrite_tables(_TABLES)


def _vector_search(schema: str) -> str:
    """Return the name of the statement that searches with the extension in this schema."""
    name = f"memory_search_vectors_{schema}"
    if name not in STATEMENTS:
        quoted = '"' + schema.replace('"', '""') + '"'
        distance = f"v.vector::{quoted}.vector OPERATOR({quoted}.<=>) $2::real[]::{quoted}.vector"
        STATEMENTS[name] = (
            f"SELECT {_COLUMNS} FROM memory_vectors v JOIN memory_items i ON i.no = v.item_no"
            " WHERE v.partition_no = $1 AND i.partition_no = $1 AND v.model = $3"
            " AND cardinality(v.vector) = cardinality($2::real[])"
            " AND (i.expires_at IS NULL OR i.expires_at > $4)"
            f" ORDER BY {distance}, i.no LIMIT $5"
        )
    return name


def _read_floats(vector: bytes) -> list[float]:
    return array("f", vector).tolist()
