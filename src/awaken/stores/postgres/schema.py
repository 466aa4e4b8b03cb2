"""The schema: numbered migrations, each applied once, however many processes start at once."""

from awaken.contracts.errors import StoreTooNew
from awaken.stores.sql import tenant_ids
from awaken.stores.sql.statements import migrations

from .connection import Connection
from .server import PostgresServer

_LOCK = int.from_bytes(b"awaken", "big")
_VERSION = "schema_version"


async def prepare(connection: Connection, server: PostgresServer) -> None:
    """Bring the schema up to date; writes nothing if it is.

    If this fails the caller must drop the connection: it may still hold the lock.

    Raises:
        StoreTooNew: A newer version of awaken wrote the database.
    """
    found, known = await schema_version(connection, server)
    if found == known:
        return
    # Taken before the transaction begins, so that it sees the migrations of other processes.
    await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
    await _migrate(connection, server)
    await connection.execute("SELECT pg_advisory_unlock($1)", _LOCK)


async def _migrate(connection: Connection, server: PostgresServer) -> None:
    async with connection.transaction():
        found, known = await schema_version(connection, server)
        if found > known:
            raise StoreTooNew(store=server.name, found=found, known=known)
        if found == 0:
            await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {server.schema}")
        for script in migrations(__package__)[found:]:
            await connection.execute(script)
        if 0 < found < tenant_ids.VERSION:
            await tenant_ids.rename_tenant_ids(connection.fetch)
        await connection.execute(
            "INSERT INTO facts (name, value) VALUES ($1, $2)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            _VERSION,
            str(known),
        )


async def schema_version(connection: Connection, server: PostgresServer) -> tuple[int, int]:
    """Return the schema of the database, 0 if it has none, and the newest known one."""
    known = len(migrations(__package__))
    if await connection.fetchval("SELECT to_regclass($1)::text", f"{server.schema}.facts") is None:
        return 0, known
    found = await connection.fetchval("SELECT value FROM facts WHERE name = $1", _VERSION)
    return int(found or 0), known
