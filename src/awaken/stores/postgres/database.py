"""The Postgres database: transactions over a pool that survives restarts of the server."""

import asyncio
import math
from collections.abc import Sequence
from typing import TypeVar

from awaken.contracts.errors import InvalidInput, StoreUnavailable
from awaken.contracts.storage.mailbox import LeaseKeeper
from awaken.stores.sql.session import Work

from .connection import Connection, connect
from .errors import DRIVER_ERRORS, is_broken, is_read_only, is_transient, translate_error
from .keeper import PostgresLeaseKeeper
from .pool import Pool
from .rewriting import rewrite_tables
from .schema import prepare, schema_version
from .server import PostgresServer
from .session import PostgresSession

T = TypeVar("T")

ATTEMPTS = 6
"""How often work is tried if it conflicts with other transactions."""

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"


class PostgresDatabase:
    """A `Database` on a Postgres server.

    If a task is cancelled while it waits, its connection is dropped and the server rolls back
    what was not committed. A commit whose reply is missing is never sent again.
    """

    def __init__(self, server: PostgresServer, pool_size: int) -> None:
        self.name = server.name
        if pool_size < 1:
            raise InvalidInput(what=f"store '{self.name}'", problem="pool_size must be at least 1")
        self._server = server
        self._size = pool_size
        self._pool: Pool | None = None
        self._written_at = -math.inf
        """When the latest write became durable, by the clock of the event loop."""
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Connect and bring the schema up to date; calling it twice is harmless.

        Raises:
            StoreTooNew: A newer version of awaken wrote the database.
            StoreUnavailable: The server cannot be reached, or refuses.
        """
        async with self._opening:
            if self._pool is None:
                pool = Pool(self._server, self._size)
                await self._prepare(pool)
                self._pool = pool

    async def close(self) -> None:
        """Let running work end, bounded in time, then close every connection."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def schema_versions(self) -> tuple[int, int]:
        """Return the schema of the database, and the newest known one, on a connection of its own.

        Raises:
            StoreUnavailable: The server cannot be reached, or refuses.
        """
        connection = await connect(self._server)
        try:
            return await schema_version(connection, self._server)
        except DRIVER_ERRORS as error:
            raise translate_error(error, self.name) from error
        finally:
            connection.terminate()

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
        connection = await self._open_transaction(pool, _WRITE if is_write else _READ)
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
            await prepare(connection, self._server)
        except DRIVER_ERRORS as error:
            pool.discard(connection)
            raise translate_error(error, self.name) from error
        except BaseException:
            pool.discard(connection)
            raise
        pool.release(connection)


async def _roll_back(connection: Connection) -> bool:
    try:
        await connection.execute("ROLLBACK")
    except DRIVER_ERRORS:
        return False
    return True
