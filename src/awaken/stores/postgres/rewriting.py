"""Writes tables anew, so that no bytes of deleted rows are left in their files.

A rewrite locks its table, also against readers, and everything that comes later waits behind it.
So each table is rewritten by itself, its lock is awaited for a moment only, and the rewrite is
given up after a while: nothing else waits for longer than `LOCK_MS` and `REWRITE_MS`.
"""

import asyncio
from collections.abc import Sequence

import asyncpg

from .connection import Connection, connect_direct
from .server import PostgresServer

LOCK_MS = 250
"""How long a rewrite waits for work that uses its table; others wait behind it."""
REWRITE_MS = 10_000
"""How long the rewrite of one table may take."""
TRIES = 4
PAUSE_S = 0.25
_STILL_SEEN = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND age(backend_xmin) > age(($1::bigint % (1::bigint << 32))"
    "::text::xid) LIMIT 1"
)


async def rewrite_tables(
    server: PostgresServer, tables: Sequence[str], rewrite_ms: int = REWRITE_MS
) -> bool:
    """Write tables anew; returns whether no byte of a row that was deleted before is left in them.

    False: other work uses a table all the time, a transaction is open that can still see deleted
    rows, or a table is too large.
    """
    connection = await connect_direct(server, lock_timeout=LOCK_MS)
    try:
        if not await _see_snapshots_end(connection):
            return False
        await connection.execute(f"SET statement_timeout = {rewrite_ms}")
        for table in tables:
            if not await _rewrite(connection, table):
                return False
    finally:
        connection.terminate()
    return True


async def _see_snapshots_end(connection: Connection) -> bool:
    """Wait a moment for transactions that began before; a rewrite would copy what they can see."""
    deleted_before = await connection.fetchval("SELECT txid_current()")
    for _ in range(TRIES):
        if await connection.fetchval(_STILL_SEEN, deleted_before) is None:
            return True
        await asyncio.sleep(PAUSE_S)
    return False


async def _rewrite(connection: Connection, table: str) -> bool:
    for _ in range(TRIES):
        try:
            await connection.execute(f"VACUUM (FULL) {table}")
        except asyncpg.LockNotAvailableError:
            await asyncio.sleep(PAUSE_S)
        except asyncpg.QueryCanceledError:
            return False
        else:
            return True
    return False
