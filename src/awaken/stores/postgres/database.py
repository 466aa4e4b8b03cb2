"""The Postgres database: transactions over a pool that survives restarts of the server."""

import asyncio
import math
from collections.abc import Sequence
from typing import TypeVar

from awaken.contracts.errors import InvalidInput, StoreUnavailable
from awaken.contracts.storage.inspection import ConnectionBudget, SchemaVersions
from awaken.contracts.storage.mailbox import LeaseKeeper
from awaken.stores.sql.migrations import check_readable
from awaken.stores.sql.session import Work

from .budget import read_budget
from .connection import Connection, begin_transaction, connect, has_own_session
from .errors import DRIVER_ERRORS, is_broken, is_read_only, is_transient, translate_error
from .keeper import PostgresLeaseKeeper
from .pool import Pool
from .rewriting import rewrite_tables
from .schema import contract, migrate, read_versions
from .server import PostgresServer
from .session import PostgresSession

T = TypeVar("T")

ATTEMPTS = 6
"""How often work is tried if it conflicts with other transactions."""


class PostgresDatabase:
    """A `Database` on a Postgres server.

    If a task is cancelled while it waits, its connection is dropped and the server rolls back
    what was not committed. A commit whose reply is missing is never sent again.
    """

    def __init__(self, server: PostgresServer) -> None:
        self.name = server.name
        if server.pool_size < 1:
            raise InvalidInput(what=f"store '{self.name}'", problem="its pool must be at least 1")
        self._server = server
        self._begin_read = begin_transaction(server, is_write=False)
        self._begin_write = begin_transaction(server, is_write=True)
        self._pool: Pool | None = None
        self._written_at = -math.inf
        """When the latest write became durable, by the clock of the event loop."""
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Connect and bring the schema up to date; calling it twice is harmless.

        Raises:
            StoreTooNew: The database can be used by newer versions of awaken only.
            StoreUnavailable: The server cannot be reached, or refuses.
            InvalidInput: A pooler is before the server, and `direct` is not named.
        """
        async with self._opening:
            if self._pool is None:
                pool = Pool(self._server)
                await self._prepare(pool)
                self._pool = pool

    async def close(self) -> None:
        """Let running work end, bounded in time, then close every connection."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def schema_versions(self) -> SchemaVersions:
        """Return the schema of the database and which code may use it; changes nothing.

        Raises:
            StoreUnavailable: The server cannot be reached, or refuses.
        """
        connection = await connect(self._server)
        try:
            return await read_versions(connection, self._server)
        except DRIVER_ERRORS as error:
            raise translate_error(error, self.name) from error
        finally:
            connection.terminate()

    async def contract_schema(self) -> SchemaVersions:
        """Take away what only older versions use; returns what the database has afterwards.

        Raises:
            StoreUnavailable: The server cannot be reached, or the schema is not the known one.
            StoreTooNew: A newer version contracted it already.
        """
        try:
            return await contract(self._server)
        except DRIVER_ERRORS as error:
            raise translate_error(error, self.name) from error

    async def count_connections(self) -> ConnectionBudget:
        """Return how many sessions the server allows, and how many a process of this store takes.

        Raises:
            StoreUnavailable: The server cannot be reached, or refuses.
        """
        try:
            return await read_budget(self._server)
        except DRIVER_ERRORS as error:
            raise translate_error(error, self.name) from error

    def since_write_ms(self) -> float:
        """Return how long ago the latest write became durable; infinite before the first."""
        return (asyncio.get_running_loop().time() - self._written_at) * 1000

    async def read(self, work: Work[T]) -> T:
        """Run work on one consistent view."""
        return await self._run(work, is_write=False)

    async def write(self, work: Work[T]) -> T:
        """Run work and make it durable before returning; an exception undoes all of it.

        Raises:
            StoreUnavailable: The server did not answer. If the connection was lost during the
                commit, the message says that the outcome is unknown.
        """
        return await self._run(work, is_write=True)

    async def rewrite_tables(self, tables: Sequence[str]) -> bool:
        """Write tables anew; returns whether no byte of a deleted row is left in their files.

        Raises:
            StoreUnavailable: The server cannot be reached, or refuses.
        """
        try:
            return await rewrite_tables(self._server, tables)
        except DRIVER_ERRORS as error:
            raise translate_error(error, self.name) from error

    def find_shown(self, thread_id: str) -> None:
        """Return None: only the server knows what other processes have written."""

    def lease_keeper(self) -> LeaseKeeper:
        """Return a new lease keeper with its own connection."""
        return PostgresLeaseKeeper(self._server)

    async def _run(self, work: Work[T], *, is_write: bool) -> T:
        """Run work again if it conflicts with others; each attempt is a new transaction."""
        left = ATTEMPTS
        while True:
            left -= 1
            try:
                return await self._transact(work, is_write=is_write)
            except DRIVER_ERRORS as error:
                if left == 0 or not is_transient(error):
                    raise translate_error(error, self.name) from error

    async def _transact(self, work: Work[T], *, is_write: bool) -> T:
        pool = self._pool
        if pool is None:
            raise StoreUnavailable(store=self.name, problem="it is not open")
        connection = await self._open_transaction(
            pool, self._begin_write if is_write else self._begin_read
        )
        is_sound = False
        try:
            try:
                session = PostgresSession(connection)
                result = await work(session)
            except Exception as error:
                is_sound = not is_broken(error) and await _roll_back(connection)
                if is_read_only(error):
                    # A primary that has become a standby keeps its connections open.
                    is_sound = False
                    pool.discard_idle()
                raise
            if is_write:
                await self._commit(connection)
                if session.has_written:
                    self._written_at = asyncio.get_running_loop().time()
            # The result of a read is complete, whatever happens to the connection now.
            is_sound = is_write or await _roll_back(connection)
            return result
        finally:
            # A cancelled task also leaves an unsound connection.
            if is_sound:
                pool.release(connection)
            else:
                pool.discard(connection)

    async def _open_transaction(self, pool: Pool, begin: str) -> Connection:
        """Take a connection and begin a transaction on it.

        The first connection may have died while it was idle. Nothing was done on it, so another
        one is taken; the other idle connections have most likely died too and are dropped.
        """
        connection = await pool.acquire()
        try:
            return await self._begin(pool, connection, begin)
        except DRIVER_ERRORS:
            pool.discard_idle()
        return await self._begin(pool, await pool.acquire(), begin)

    async def _begin(self, pool: Pool, connection: Connection, begin: str) -> Connection:
        try:
            await connection.execute(begin, timeout=self._server.connect_timeout_ms / 1000)
        except BaseException:
            pool.discard(connection)
            raise
        return connection

    async def _commit(self, connection: Connection) -> None:
        try:
            status = await connection.execute("COMMIT")
        except DRIVER_ERRORS as error:
            if not is_broken(error):
                raise
            problem = "the connection was lost during a commit; whether it was applied is unknown"
            raise StoreUnavailable(store=self.name, problem=problem) from error
        if status != "COMMIT":
            raise StoreUnavailable(store=self.name, problem="it rolled the transaction back")

    async def _prepare(self, pool: Pool) -> None:
        connection = await pool.acquire()
        try:
            versions = await self._check_server(connection)
            check_readable(self.name, versions)
            if versions.found < versions.known:
                await migrate(self._server)
        except DRIVER_ERRORS as error:
            pool.discard(connection)
            raise translate_error(error, self.name) from error
        except BaseException:
            pool.discard(connection)
            raise
        pool.release(connection)

    async def _check_server(self, connection: Connection) -> SchemaVersions:
        if not self._server.has_direct and not await has_own_session(connection):
            problem = (
                "a pooler is before the server; add the option direct= with the URL of the server"
                " itself (or of the pooler again, if it keeps sessions apart)"
            )
            raise InvalidInput(what=f"store '{self.name}'", problem=problem)
        return await read_versions(connection, self._server)


async def _roll_back(connection: Connection) -> bool:
    try:
        await connection.execute("ROLLBACK")
    except DRIVER_ERRORS:
        return False
    return True
