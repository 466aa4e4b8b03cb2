"""The schema: numbered migrations, each applied once, however many processes start at once.

Migrations run in a session of their own on the server itself, beside processes that work. A
statement that needs a lock on a table gives up after `LOCK_MS` and is tried again, because
everything that comes later waits behind it. A script may have steps, each a transaction of its
own: what comes before the last one can be run again. A step with `CONCURRENTLY` has nothing but
indexes: it cannot run in a transaction, so each of its statements can be run again.
"""

import asyncio
import re

import asyncpg

from awaken.contracts.errors import StoreUnavailable
from awaken.contracts.storage.inspection import SchemaVersions
from awaken.stores.sql import tenant_ids
from awaken.stores.sql.migrations import (
    READABLE_FROM,
    VERSION,
    check_readable,
    contracts,
    migrations,
)

from .connection import Connection, begin_transaction, connect_direct
from .server import PostgresServer

FIRST_READABLE = 11
"""Code of earlier schemas refuses every later schema; from here on versions can share a store."""
LOCK_MS = 2_000
TRIES = 30
PAUSE_S = 0.2
MIGRATE_MS = 3_600_000
"""How long one statement of a migration may take, and how long a process waits for another."""

_LOCK = int.from_bytes(b"awaken", "big")
_CONCURRENTLY = re.compile(
    r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+) [^;]+;", re.IGNORECASE
)
STEP = re.compile(r"^-- step\b.*$", re.MULTILINE)
"""The line that begins a further step of a script."""
_SAVE_FACT = (
    "INSERT INTO facts (name, value) VALUES ($1, $2)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_KEEP_FACT = "INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING"
_MAY_MAKE = (
    "SELECT n IS NOT NULL, CASE WHEN n IS NULL THEN"
    " has_database_privilege(current_database(), 'CREATE')"
    " ELSE has_schema_privilege(n, 'CREATE') END, quote_ident(current_user)"
    " FROM (SELECT to_regnamespace($1)::oid AS n) AS schema"
)
_IS_INVALID = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT indisvalid"


async def read_versions(connection: Connection, server: PostgresServer) -> SchemaVersions:
    """Return which schema the database has, and which code may use it."""
    await connection.execute(begin_transaction(server, is_write=False))
    try:
        return await _read_facts(connection)
    finally:
        await connection.execute("ROLLBACK")


async def migrate(server: PostgresServer) -> None:
    """Run the expand migrations that the database does not have yet.

    Raises:
        StoreTooNew: A newer version contracted the schema meanwhile.
        StoreUnavailable: A table was locked by others all the time.
    """
    connection = await _connect_locked(server)
    try:
        versions = await _read_facts(connection)
        check_readable(server.name, versions)
        scripts = migrations(__package__)
        found = versions.found
        if found < FIRST_READABLE:
            # No process of another version can be there, so nothing has to be done beside it.
            together = len(scripts) if found == 0 else FIRST_READABLE
            await _migrate_alone(connection, server, scripts[found:together], found, together)
            found = together
        for number in range(found + 1, len(scripts) + 1):
            await _run_beside_others(connection, server, scripts[number - 1], (VERSION, number))
    finally:
        connection.terminate()


async def contract(server: PostgresServer) -> SchemaVersions:
    """Run the contract migrations that the database does not have yet.

    Raises:
        StoreTooNew: A newer version contracted the schema already.
        StoreUnavailable: The schema is not the known one, or a table was locked all the time.
    """
    connection = await _connect_locked(server)
    try:
        versions = await _read_facts(connection)
        check_readable(server.name, versions)
        if versions.found != versions.known:
            problem = f"its schema is {versions.found}, this version has {versions.known}"
            raise StoreUnavailable(store=server.name, problem=problem)
        for number, script in contracts(__package__).items():
            if number > versions.readable_from:
                await _run_beside_others(connection, server, script, (READABLE_FROM, number))
        return await _read_facts(connection)
    finally:
        connection.terminate()


async def _connect_locked(server: PostgresServer) -> Connection:
    """Open a session that alone may migrate; the lock goes with the session.

    Asked again and again: a statement that waits for the lock has a snapshot, and an index that is
    built concurrently waits for every older snapshot.
    """
    connection = await connect_direct(server, statement_timeout=MIGRATE_MS)
    try:
        for _ in range(int(MIGRATE_MS / 1000 / PAUSE_S)):
            if await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):
                return connection
            await asyncio.sleep(PAUSE_S)
    except BaseException:
        connection.terminate()
        raise
    connection.terminate()
    raise StoreUnavailable(store=server.name, problem="another process migrates it for too long")


async def _migrate_alone(
    connection: Connection, server: PostgresServer, scripts: list[str], found: int, to: int
) -> None:
    """Run migrations of a new or very old database in one transaction.

    A new one has nothing for older code, which never saw it: it is contracted from the beginning.
    """
    closing = {}
    if found == 0:
        closing = {no: it for no, it in contracts(__package__).items() if no <= to}
    readable_from = max(closing, default=FIRST_READABLE)
    async with connection.transaction():
        if found == 0:
            await _make_schema(connection, server)
        for script in (*scripts, *closing.values()):
            await _execute(connection, script.replace(" CONCURRENTLY", ""))
        if 0 < found < tenant_ids.VERSION:
            await tenant_ids.rename_tenant_ids(connection.fetch)
        await connection.execute(_SAVE_FACT, VERSION, str(to))
        await connection.execute(_KEEP_FACT, READABLE_FROM, str(readable_from))


async def _make_schema(connection: Connection, server: PostgresServer) -> None:
    """Make the schema, unless an administrator has: the user may have no right to make one.

    Raises:
        StoreUnavailable: The user may make no schema, or no tables in the one that is there.
    """
    is_there, is_allowed, user = await connection.fetchrow(_MAY_MAKE, server.schema)
    if not is_allowed:
        remedy = f"CREATE SCHEMA {server.schema} AUTHORIZATION {user}"
        if is_there:
            remedy = f"ALTER SCHEMA {server.schema} OWNER TO {user}"
        problem = f"its user may not make the tables; an administrator allows it by `{remedy}`"
        raise StoreUnavailable(store=server.name, problem=problem)
    if not is_there:
        await connection.execute(f"CREATE SCHEMA {server.schema}")


async def _run_beside_others(
    connection: Connection, server: PostgresServer, script: str, fact: tuple[str, int]
) -> None:
    """Run one migration and note it, while other processes use the tables."""
    *steps, last = STEP.split(script)
    for step in steps:
        await _run_step(connection, server, step, fact[1], note=None)
    await _run_step(connection, server, last, fact[1], note=fact)


async def _run_step(
    connection: Connection,
    server: PostgresServer,
    step: str,
    number: int,
    note: tuple[str, int] | None,
) -> None:
    if "CONCURRENTLY" in step:
        await _build_indexes(connection, step)
        if note is not None:
            await connection.execute(_SAVE_FACT, note[0], str(note[1]))
        return
    for _ in range(TRIES):
        try:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
                await _execute(connection, step)
                if note is not None:
                    await connection.execute(_SAVE_FACT, note[0], str(note[1]))
        except asyncpg.LockNotAvailableError:
            await asyncio.sleep(PAUSE_S)
        else:
            return
    problem = (
        f"migration {number} found a table locked {TRIES} times for {LOCK_MS} ms;"
        " look for long transactions in pg_stat_activity"
    )
    raise StoreUnavailable(store=server.name, problem=problem)


async def _build_indexes(connection: Connection, script: str) -> None:
    """Build the indexes of a script; one that a crash left unfinished is built again.

    Others read and write meanwhile, so the build may wait for them as long as it takes.
    """
    for match in _CONCURRENTLY.finditer(script):
        if await connection.fetchval(_IS_INVALID, match[1]) is not None:
            await _execute(connection, f"DROP INDEX CONCURRENTLY {match[1]}")
        await _execute(connection, match[0])


async def _execute(connection: Connection, script: str) -> None:
    await connection.execute(script, timeout=MIGRATE_MS / 1000)


async def _read_facts(connection: Connection) -> SchemaVersions:
    try:
        rows = await connection.fetch(
            "SELECT name, value FROM facts WHERE name = ANY($1)", [VERSION, READABLE_FROM]
        )
    except asyncpg.UndefinedTableError:
        rows = []
    facts = dict(rows)
    return SchemaVersions(
        found=int(facts.get(VERSION, 0)),
        readable_from=int(facts.get(READABLE_FROM, FIRST_READABLE)),
        known=len(migrations(__package__)),
    )
