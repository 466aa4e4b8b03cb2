"""The Postgres store."""

from typing import TYPE_CHECKING

from awaken.stores.sql.store import SqlStore

from .database import PostgresDatabase
from .server import parse_server

if TYPE_CHECKING:
    from awaken.contracts.evals.store import EvalStore
    from awaken.contracts.memory.engine import MemoryEngine


class PostgresStore(SqlStore):
    """A store on a Postgres server; any number of processes and machines may use it at once.

    Leases are measured by the server's wall clock, which must not be set while it runs. All
    tables are in their own schema.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 10,
        schema: str = "awaken",
        connect_timeout_ms: int = 5_000,
        command_timeout_ms: int = 30_000,
    ) -> None:
        self.url = url
        """The URL with the password, for a bus on the same server."""
        server = parse_server(url, schema, connect_timeout_ms, command_timeout_ms)
        self.database = PostgresDatabase(server, pool_size)
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

    async def schema_versions(self) -> tuple[int, int]:
        """Return the schema of the database, 0 if it has none, and the newest known one.

        Changes and creates nothing.

        Raises:
            StoreUnavailable: The server cannot be reached, or refuses.
        """
        return await self.database.schema_versions()
