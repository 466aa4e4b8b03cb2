"""The Postgres store."""

from collections.abc import Mapping
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from awaken.contracts.storage.dispatch import Purged
from awaken.contracts.storage.inspection import ConnectionBudget, SchemaVersions, StoreWatcher
from awaken.contracts.storage.mailbox import TenantLimits
from awaken.contracts.storage.nodes import NodeKeeper
from awaken.stores.sql import retention
from awaken.stores.sql.claims import ListDue
from awaken.stores.sql.session import SqlSession
from awaken.stores.sql.store import SqlStore

from .claim_order import list_shared_due
from .database import PostgresDatabase
from .nodes import PostgresNodes
from .partitions import look_at_days
from .server import parse_server

if TYPE_CHECKING:
    from awaken.contracts.evals.store import EvalStore
    from awaken.contracts.memory.engine import MemoryEngine

_CHANNEL_MAX = 48
"""How long the name of a channel may be for a bus."""


class PostgresStore(PostgresNodes, SqlStore):
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
        self.bus_channel = _name_channel(schema)
        """The channel of a bus between the processes of this store; the name of its schema."""
        self.database = PostgresDatabase(server)
        super().__init__(self.database)

    @property
    def watchers(self) -> list[StoreWatcher]:
        """Who is told what the server is asked."""
        return self.database.watchers

    def node_keeper(self) -> NodeKeeper:
        """Return a new keeper with its own connection; use and close it in one thread."""
        return self.database.lease_keeper()

    def is_drained(self, thread_id: str) -> bool:
        """Whether the latest write of this process left a thread unclaimed, with an empty queue."""
        return self.database.is_drained(thread_id)

    def open_memory(self) -> "MemoryEngine":
        """Return where facts and documents are kept; few programs need it."""
        from awaken.stores.sql.memory import SqlMemoryEngine  # noqa: PLC0415

        from .memory import PostgresMemoryIndex  # noqa: PLC0415

        return SqlMemoryEngine(self.database, PostgresMemoryIndex(self.database))

    def open_evals(self) -> "EvalStore":
        """Return where datasets, evals and scores are kept; few programs need it."""
        from .evals import open_evals  # noqa: PLC0415

        return open_evals(self.database)

    def _share_due(self, tenants: Mapping[str, TenantLimits]) -> ListDue:
        """Return how threads are found within the limits of tenants, also if others claim too."""
        return partial(list_shared_due, tenants=tenants)

    async def purge(
        self, before_ms: int, limit: int = 1000, kept: Mapping[str, str] | None = None
    ) -> Purged:
        """Remove records that ended before a time; see `MailboxStore.purge`.

        The log goes by days: an event stays until its day, by the server's clock and UTC, has
        ended before that time. One process at a time purges; others find nothing to remove.
        """
        runs = kept or {}

        async def work(session: SqlSession) -> Purged | None:
            row = await session.one("try_purge")
            if row is None or not row[0]:
                return None
            return await retention.purge(session, before_ms, limit, runs)

        purged = await self.database.write(work)
        if purged is None:
            return Purged()
        # Not before the commits that are removed one by one: a log has no hole at any time.
        if purged.events == 0:
            days = await self.database.read(look_at_days)
            if days.is_due(before_ms):
                dropped = await self.database.keep_days(before_ms, runs)
                return msgspec.structs.replace(purged, partitions=dropped)
        return purged

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


def _name_channel(schema: str) -> str:
    """Name a channel after a schema; a long one is cut, so that addresses fit behind it."""
    if len(schema) <= _CHANNEL_MAX:
        return schema
    digest = blake2b(schema.encode(), digest_size=8).hexdigest()
    return f"{schema[: _CHANNEL_MAX - 17]}_{digest}"
