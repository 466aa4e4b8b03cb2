"""The SQLite store."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from awaken.contracts.storage.inspection import SchemaVersions, StoreCheck
from awaken.stores.sql.session import Moment
from awaken.stores.sql.store import SqlStore

from .checks import check_file, contract_file, read_file_versions
from .clock import moment
from .database import SqliteDatabase

if TYPE_CHECKING:
    from awaken.contracts.evals.store import EvalStore
    from awaken.contracts.memory.engine import MemoryEngine


class SqliteStore(SqlStore):
    """A store in one file; several processes of one machine may use it at once."""

    def __init__(self, path: str | Path, now: Callable[[], Moment] = moment) -> None:
        self.database = SqliteDatabase(path, now)
        super().__init__(self.database)
        self._path = Path(path)

    def open_memory(self) -> "MemoryEngine":
        """Return where facts and documents are kept; few programs need it."""
        from awaken.stores.sql.memory import SqlMemoryEngine  # noqa: PLC0415

        from .memory import SqliteMemoryIndex  # noqa: PLC0415

        return SqlMemoryEngine(self.database, SqliteMemoryIndex(self.database))

    def open_evals(self) -> "EvalStore":
        """Return where datasets, evals and scores are kept; few programs need it."""
        from .evals import open_evals  # noqa: PLC0415

        return open_evals(self.database)

    async def schema_versions(self) -> SchemaVersions:
        """Return the file's schema and which code may use it; the file is not changed."""
        return await asyncio.to_thread(read_file_versions, self._path, self.name)

    async def contract_schema(self) -> SchemaVersions:
        """Take away what only older versions use; returns what the file has afterwards."""
        return await asyncio.to_thread(contract_file, self._path, self.name)

    async def check(self) -> StoreCheck:
        """Read every record and verify its checksum; lists all damage that it finds."""
        return await asyncio.to_thread(check_file, self._path, self.name)
