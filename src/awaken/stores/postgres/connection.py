"""One connection: how it is opened, and the settings of a transaction and of a session."""

from typing import TypeAlias

import asyncpg

from awaken.contracts.errors import InvalidInput, StoreUnavailable
from awaken.outbound.postgres_hosts import PostgresHosts

from .errors import DRIVER_ERRORS, translate_error
from .server import PostgresServer

Connection: TypeAlias = asyncpg.Connection

IDLE_MS = 5_000
"""How long a process that is stopped inside a transaction may hold its locks."""
_CLOSE_S = 1.0
_SLACK_S = 1.0
"""Added to the client's timeout, so that the server gives up first and says why."""
_STATEMENTS_KEPT = 256

# With asynchronous commits a crash of the server would lose acknowledged data.
_SYNCHRONOUS = (
    "SELECT set_config('synchronous_commit', 'on', true)"
    " WHERE current_setting('synchronous_commit') = 'off'"
)
PLAN_ONCE = "SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off"
"""For statements that only ever step through indexes: planning a claim takes as long as the rest.

A plan that is kept must not be one for a table that was still small.
"""
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"


def begin_transaction(server: PostgresServer, *, is_write: bool) -> str:
    """Return the text that begins a transaction with its settings, in one round trip.

    The settings end with the transaction: a pooler may give the session to another client then.
    """
    begin = f"{_WRITE if is_write else _READ}; {make_settings(server, 'SET LOCAL')}"
    return f"{begin}; {_SYNCHRONOUS}" if is_write else begin


def make_settings(server: PostgresServer, word: str) -> str:
    """Return the statements that configure a transaction (`SET LOCAL`) or a session (`SET`)."""
    idle_ms = min(server.command_timeout_ms, IDLE_MS)
    return (
        f"{word} search_path = {server.schema};"
        f" {word} statement_timeout = {server.command_timeout_ms};"
        f" {word} idle_in_transaction_session_timeout = {idle_ms}"
    )


async def connect(server: PostgresServer) -> Connection:
    """Connect for transactions, bounded in time; the session is configured by each of them.

    Raises:
        StoreUnavailable: The server did not answer, or refused.
        InvalidInput: The driver cannot read the URL.
    """
    return await _connect(server, server.hosts, settings=None)


async def connect_direct(server: PostgresServer, **settings_ms: int) -> Connection:
    """Connect to the server itself, bounded in time, with a configured session of one's own.

    `settings_ms` are further settings of the session, such as `lock_timeout`.

    Raises:
        StoreUnavailable: The server did not answer, or refused.
        InvalidInput: The driver cannot read the URL.
    """
    more = "".join(f"; SET {name} = {value}" for name, value in settings_ms.items())
    return await _connect(server, server.direct_hosts, make_settings(server, "SET") + more)


async def _connect(
    server: PostgresServer, hosts: PostgresHosts, settings: str | None
) -> Connection:
    is_kept = server.is_prepared or settings is not None

    async def connect_host(url: str) -> Connection:
        connection = await asyncpg.connect(
            url,
            command_timeout=server.command_timeout_ms / 1000 + _SLACK_S,
            statement_cache_size=_STATEMENTS_KEPT if is_kept else 0,
            max_cached_statement_lifetime=0,
        )
        try:
            if settings is not None:
                await connection.execute(settings)
        except BaseException:
            connection.terminate()
            raise
        return connection

    try:
        return await hosts.connect(connect_host, server.connect_timeout_ms / 1000, DRIVER_ERRORS)
    except asyncpg.ClientConfigurationError as error:
        # An option is wrong, or a file that it names is not there.
        problem = " ".join(str(error).split()).rstrip(".")
        raise InvalidInput(what=f"the URL of {server.name}", problem=problem) from None
    except ValueError:
        # Not chained: its text may contain a part of the password.
        problem = "the driver cannot read it; encode special characters"
        raise InvalidInput(what=f"the URL of {server.name}", problem=problem) from None
    except TimeoutError as error:
        problem = f"no connection within {server.connect_timeout_ms} ms"
        raise StoreUnavailable(store=server.name, problem=problem) from error
    except DRIVER_ERRORS as error:
        raise translate_error(error, server.name) from error


async def has_own_session(connection: Connection) -> bool:
    """Whether the connection is to the server itself: a pooler tells another process id.

    By the simple protocol, which leaves no prepared statement behind in a session of others.
    """
    process_id = connection.get_server_pid()
    status = await connection.execute(f"SELECT WHERE pg_backend_pid() = {process_id}")
    return bool(status == "SELECT 1")


async def close(connection: Connection) -> None:
    """Close a connection, bounded in time; a broken one is dropped."""
    try:
        await connection.close(timeout=_CLOSE_S)
    except DRIVER_ERRORS:
        connection.terminate()
