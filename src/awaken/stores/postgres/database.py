"""The Postgres database: transactions over a pool that survives restarts of the server."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from awaken.contracts.errors import CorruptRecord, InvalidInput, StoreUnavailable
from awaken.contracts.storage.inspection import ConnectionBudget, SchemaVersions, StoreWatcher
from awaken.stores.sql.migrations import check_readable
from awaken.stores.sql.session import Row, SqlSession, Work

from .budget import read_budget
from .claiming import ClaimingSession
from .connection import PLAN_ONCE, Connection, begin_transaction, connect, has_own_session
from .errors import DRIVER_ERRORS, is_broken, is_read_only, is_transient, translate_error
from .guessing import GuessingSession
from .keeper import PostgresLeaseKeeper
from .known_threads import PostgresContext
from .partitions import keep_days
from .pool import Pool
from .rewriting import rewrite_tables
from .schema import contract, migrate, read_versions
from .server import PostgresServer
from .session import PostgresSession, SecondStatement, SingleRead

logger = logging.getLogger(__name__)

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
        self._begin_claim = f"{self._begin_write}; {PLAN_ONCE}"
        self._shared = PostgresContext(server.schema)
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
                pool = Pool(self._server, self._shared.watchers)
                await self._prepare(pool)
                self._pool = pool

    @property
    def watchers(self) -> list[StoreWatcher]:
        """Who is told what the server is asked."""
        return self._shared.watchers

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
        return await self._run(work, self._begin_read)

    async def read_row(self, work: Work[T]) -> T:
        """Run work that needs one statement, without a transaction; more begin one."""
        try:
            async with (
                self._lend_connection() as connection,
                asyncio.timeout(self._server.connect_timeout_ms / 1000),
            ):
                return await work(SingleRead(connection, self._shared))
        except (SecondStatement, CorruptRecord, *DRIVER_ERRORS):
            # Statements that see two moments may contradict each other; and a connection may have
            # died while it was idle. Nothing was changed: all of it is read again.
            return await self.read(work)

    async def write_row(self, work: Work[T]) -> T:
        """Write with work of one statement, without a transaction around it.

        It is run a second time, in a transaction, if its reply is lost.
        """
        try:
            async with (
                self._lend_connection() as connection,
                asyncio.timeout(self._server.connect_timeout_ms / 1000),
            ):
                return await work(PostgresSession(connection, self._shared))
        except DRIVER_ERRORS:
            return await self.write(work)

    async def write_thread(self, work: Work[T], thread_id: str, *, is_adding: bool = False) -> T:
        """Run work on one thread: with one statement if what is known of the thread is true.

        The statement compares the thread's row, so it changes nothing if the guess was wrong; the
        work is then run again in a transaction, which also finds the right error. It is run again
        too if the reply is lost, so work that was applied must be recognised by itself.
        `is_adding` says that it queues a dispatch.

        Raises:
            StoreUnavailable: As `write` does.
        """
        if self._shared.known.is_absent(thread_id) and not is_adding:
            # A row that is not there cannot be compared, and an insert is not enough: a caller
            # who misses the reply must be able to wait for its end.
            self._shared.known.forget(thread_id)
            return await self.write(work)
        session = GuessingSession(self._ask, self._shared, is_adding=is_adding)
        try:
            result = await work(session)
            await session.send()
        except Exception as error:  # noqa: BLE001 - a wrong guess; what is true raises again below
            logger.debug("A write to thread '%s' needs a transaction: %r", thread_id, error)
            session.forget_known()
            return await self.write(work)
        self._written_at = asyncio.get_running_loop().time()
        return result

    async def write(self, work: Work[T]) -> T:
        """Run work and make it durable before returning; an exception undoes all of it.

        Raises:
            StoreUnavailable: The server did not answer. If the connection was lost during the
                commit, the message says that the outcome is unknown.
        """
        return await self._run(work, self._begin_write)

    async def write_claims(self, work: Work[T]) -> T:
        """Run work that claims threads, with few round trips; else as `write`.

        Raises:
            StoreUnavailable: As `write` does.
        """

        async def claim(session: SqlSession) -> T:
            assert isinstance(session, PostgresSession)
            claiming = ClaimingSession(session)
            result = await work(claiming)
            await claiming.flush()
            return result

        return await self._run(claim, self._begin_claim)

    async def rewrite_tables(self, tables: Sequence[str]) -> bool:
        """Write tables anew; returns whether no byte of a deleted row is left in their files.

        Raises:
            StoreUnavailable: The server cannot be reached, or refuses.
        """
        try:
            return await rewrite_tables(self._server, tables)
        except DRIVER_ERRORS as error:
            raise translate_error(error, self.name) from error

    async def keep_days(self, before_ms: int, kept: Mapping[str, str]) -> int:
        """Make the log's next partitions and drop its oldest one; see `partitions.keep_days`.

        Raises:
            StoreUnavailable: The server cannot be reached, or refuses.
        """
        try:
            return await keep_days(self._server, before_ms, kept)
        except DRIVER_ERRORS as error:
            raise translate_error(error, self.name) from error

    def find_shown(self, thread_id: str) -> None:
        """Return None: only the server knows what other processes have written."""

    def is_drained(self, thread_id: str) -> bool:
        """Whether a thread was unclaimed, and its queue empty, when this process last saw it."""
        return self._shared.known.is_drained(thread_id)

    def lease_keeper(self) -> PostgresLeaseKeeper:
        """Return a new lease keeper with its own connection."""
        return PostgresLeaseKeeper(self._server, self._shared)

    async def _ask(
        self, text: str, args: Sequence[Any], *, is_write: bool = False
    ) -> Sequence[Row]:
        """Run one statement on any connection, outside of a transaction."""
        async with self._lend_connection() as connection:
            if self._shared.watchers:
                self._shared.count("write" if is_write else "read")
            rows: Sequence[Row] = await connection.fetch(
                text, *args, timeout=self._server.connect_timeout_ms / 1000
            )
            return rows

    @asynccontextmanager
    async def _lend_connection(self) -> AsyncIterator[Connection]:
        """Lend a connection that is in no transaction."""
        pool = self._open_pool()
        connection, is_sound = await pool.acquire(), False
        try:
            yield connection
            is_sound = True
        except Exception as error:
            is_sound = not self._take_error(pool, error)
            raise
        finally:
            # A cancelled task also leaves an unsound connection.
            pool.give_back(connection, is_sound=is_sound)

    def _take_error(self, pool: Pool, error: Exception) -> bool:
        """Learn from an error of the driver; returns whether the connection cannot be used."""
        if not is_broken(error):
            return False
        pool.discard_idle()
        self._shared.forget()
        return True

    def _open_pool(self) -> Pool:
        if self._pool is None:
            raise StoreUnavailable(store=self.name, problem="it is not open")
        return self._pool

    async def _run(self, work: Work[T], begin: str) -> T:
        """Run work again if it conflicts with others; each attempt is a new transaction."""
        left = ATTEMPTS
        while True:
            left -= 1
            try:
                return await self._transact(work, begin)
            except DRIVER_ERRORS as error:
                if left == 0 or not is_transient(error):
                    raise translate_error(error, self.name) from error

    async def _transact(self, work: Work[T], begin: str) -> T:
        pool, is_write = self._open_pool(), begin != self._begin_read
        connection = await self._open_transaction(pool, begin)
        is_sound = False
        try:
            try:
                session = PostgresSession(connection, self._shared)
                result = await work(session)
            except Exception as error:
                is_sound = not self._take_error(pool, error) and await self._roll_back(connection)
                if is_read_only(error):
                    # A primary that has become a standby keeps its connections open.
                    is_sound = False
                    pool.discard_idle()
                raise
            if is_write:
                await self._commit(connection)
                session.keep_known()
                if session.has_written:
                    self._written_at = asyncio.get_running_loop().time()
            # The result of a read is complete, whatever happens to the connection now.
            is_sound = is_write or await self._roll_back(connection)
            return result
        finally:
            # A cancelled task also leaves an unsound connection.
            pool.give_back(connection, is_sound=is_sound)

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
        if self._shared.watchers:
            self._shared.count("begin")
        try:
            await connection.execute(begin, timeout=self._server.connect_timeout_ms / 1000)
        except BaseException:
            pool.discard(connection)
            raise
        return connection

    async def _commit(self, connection: Connection) -> None:
        if self._shared.watchers:
            self._shared.count("commit")
        try:
            status = await connection.execute("COMMIT")
        except DRIVER_ERRORS as error:
            if not is_broken(error):
                raise
            problem = "the connection was lost during a commit; whether it was applied is unknown"
            raise StoreUnavailable(store=self.name, problem=problem) from error
        if status != "COMMIT":
            raise StoreUnavailable(store=self.name, problem="it rolled the transaction back")

    async def _roll_back(self, connection: Connection) -> bool:
        if self._shared.watchers:
            self._shared.count("rollback")
        try:
            await connection.execute("ROLLBACK")
        except DRIVER_ERRORS:
            return False
        return True

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
