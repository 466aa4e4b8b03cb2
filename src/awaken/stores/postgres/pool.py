"""A bounded pool of connections. A connection is never used again after an error."""

import asyncio

from awaken.contracts.errors import StoreUnavailable

from .connection import Connection, close, connect
from .server import PostgresServer


class Pool:
    """The connections of one event loop; the most recently used is taken first."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._size = server.pool_size
        self._slots = asyncio.Semaphore(server.pool_size)
        self._idle: list[Connection] = []
        self._is_closed = False

    async def acquire(self) -> Connection:
        """Take a connection; the caller must give it back with `release` or `discard`.

        Raises:
            StoreUnavailable: All were busy for too long, or the server cannot be reached.
        """
        await self._take_slot()
        try:
            return self._idle_one() or await connect(self._server)
        except BaseException:
            self._slots.release()
            raise

    def release(self, connection: Connection) -> None:
        """Give back a connection that is in order and in no transaction."""
        self._idle.append(connection)
        self._slots.release()

    def discard(self, connection: Connection) -> None:
        """Give back a connection that must not be used again; the server rolls it back."""
        connection.terminate()
        self._slots.release()

    def discard_idle(self) -> None:
        """Drop all idle connections, because one of them turned out to be broken."""
        while self._idle:
            self._idle.pop().terminate()

    async def close(self) -> None:
        """Wait until every connection was given back, bounded in time, then close them."""
        self._is_closed = True
        try:
            async with asyncio.timeout(self._server.command_timeout_ms / 1000):
                for _ in range(self._size):
                    await self._slots.acquire()
        finally:
            while self._idle:
                await close(self._idle.pop())

    def _idle_one(self) -> Connection | None:
        if self._is_closed:
            raise StoreUnavailable(store=self._server.name, problem="it is closed")
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    async def _take_slot(self) -> None:
        limit_ms = self._server.connect_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._slots.acquire()
        except TimeoutError as error:
            problem = f"pool exhausted: all {self._size} connections were busy for {limit_ms} ms"
            raise StoreUnavailable(store=self._server.name, problem=problem) from error
