"""One connection: how it is opened and configured."""

import asyncio
from typing import TypeAlias

import asyncpg

from awaken.contracts.errors import InvalidInput, StoreUnavailable

from .errors import DRIVER_ERRORS, translate_error
from .server import PostgresServer

Connection: TypeAlias = asyncpg.Connection

IDLE_MS = 5_000
"""How long a process that is stopped inside a transaction may hold its locks."""
_CLOSE_S = 1.0
_SLACK_S = 1.0
"""Added to the client's timeout, so that the server gives up first and says why."""

# With asynchronous commits a crash of the server would lose acknowledged data.
_SETTINGS = """
SET search_path = {schema};
SET default_transaction_isolation = 'read committed';
SET statement_timeout = {timeout_ms};
SET idle_in_transaction_session_timeout = {idle_ms};
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off';
"""


async def connect(server: PostgresServer) -> Connection:
    """Connect, bounded in time.

    Raises:
        StoreUnavailable: The server did not answer, or refused.
        InvalidInput: The driver cannot read the URL.
    """
    connection: Connection | None = None
    try:
        async with asyncio.timeout(server.connect_timeout_ms / 1000):
            connection = await asyncpg.connect(
                server.url,
                command_timeout=server.command_timeout_ms / 1000 + _SLACK_S,
                statement_cache_size=256,
                max_cached_statement_lifetime=0,
            )
            await connection.execute(
                _SETTINGS.format(
                    schema=server.schema,
                    timeout_ms=server.command_timeout_ms,
                    idle_ms=min(server.command_timeout_ms, IDLE_MS),
                )
            )
    except BaseException as error:
        if connection is not None:
            connection.terminate()
        if isinstance(error, ValueError | asyncpg.ClientConfigurationError):
            # Not chained: its text may contain a part of the password.
            problem = "the driver cannot read it; encode special characters"
            raise InvalidInput(what=f"the URL of {server.name}", problem=problem) from None
        if isinstance(error, TimeoutError):
            problem = f"no connection within {server.connect_timeout_ms} ms"
            raise StoreUnavailable(store=server.name, problem=problem) from error
        if isinstance(error, DRIVER_ERRORS):
            raise translate_error(error, server.name) from error
        raise
    return connection


async def close(connection: Connection) -> None:
    """Close a connection, bounded in time; a broken one is dropped."""
    try:
        await connection.close(timeout=_CLOSE_S)
    except DRIVER_ERRORS:
        connection.terminate()
