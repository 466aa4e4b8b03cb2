"""The Postgres store."""

from typing import TYPE_CHECKING

from awaken.contracts.storage.inspection import ConnectionBudget, SchemaVersions
from awaken.stores.sql.store import SqlStore

from .database import PostgresDatabase
from .server import parse_server

if TYPE_CHECKING:
    from awaken.contracts.evals.store import EvalStore
    from awaken.contracts.memory.engine import MemoryEngine


class PostgresStore(SqlStore):
    """A store on a Postgres server; any number of processes and machines may use it at once.

    Leases are measured by the server's wall clock, which must not be set while it runs. All
    tables are in their own schema. Transactions need no session of their own, so the URL may be
    that of a pooler; then its option `direct` names the server itself.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int | None = None,
        schema: str = "awaken",
        connect_timeout_ms: int = 5_000,
        command_timeout_ms: int = 30_000,
    ) -> None:
        server = parse_server(
            url,
            schema=schema,
            pool_size=pool_size,
            connect_timeout_ms=connect_timeout_ms,
            command_timeout_ms=command_timeout_ms,
        )
        self.url = server.direct_url
        """The URL of the server itself, with the password, for a bus, which needs a session."""
        self.database = PostgresDatabase(server)
        super().__init__(self.database)

    def open_memory(self) -> "MemoryEngine":
        """Return where facts and documents are kept; few programs need it."""
        from awaken.stores.sql.memory import SqlMemoryEngine  # noqa: PLC0415

        from .memory import PostgresMemoryIndex  # noqa: PLC0415

        return SqlMemoryEngine(self.database, PostgresMemoryIndex(self.database))

    def open_evals(self) -> "EvalStore":
        """Return where datasets, evals and scores are kept; few programs need it."""
        from .evals import open_evals  # noqa: PLC0415

        return open_evals(self.database)

    async def schema_versions(self) -> SchemaVersions:
        """Return the schema of the database and which code may use it; changes nothing.

        Raises:
            StoreUnavailable: The server cannot be reached, or refuses.
        """
        return await self.database.schema_versions()

    async def contract_schema(self) -> SchemaVersions:
        """Take away what only older versions use; returns what the database has afterwards.

        Raises:
            StoreUnavailable: The server cannot be reached, or the schema is not the known one.
            StoreTooNew: A newer version contracted it already.
        """
        return await self.database.contract_schema()

    async def count_connections(self) -> ConnectionBudget:
        """Return how many sessions the server allows, and how many one process of this store takes.

        Raises:
            StoreUnavailable: The server cannot be reached, or refuses.
        """
        return await self.database.count_connections()
