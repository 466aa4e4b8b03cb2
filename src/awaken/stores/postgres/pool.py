"""A bounded pool of connections. A connection is never used again after an error."""

import asyncio
from collections import deque
from collections.abc import Sequence

from awaken.contracts.errors import StoreUnavailable
from awaken.contracts.storage.inspection import StoreWatcher

from .connection import Connection, close, connect
from .errors import is_crowded
from .server import PostgresServer


class Pool:
    """The connections of one event loop; the most recently used is taken first."""

    def __init__(self, server: PostgresServer, watchers: Sequence[StoreWatcher] = ()) -> None:
        self._server = server
        self._watchers = watchers
        self._size = server.pool_size
        self._slots = asyncio.Semaphore(server.pool_size)
        self._idle: list[Connection] = []
        self._busy = 0
        """How many connections are in use, or being made."""
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        """Who waits for one of them, because the server has no place for more."""
        self._is_closed = False

    async def acquire(self) -> Connection:
        """Take a connection; the caller must give it back with `release` or `discard`.

        Raises:
            StoreUnavailable: All were busy for too long, or the server cannot be reached.
        """
        if self._watchers:
            await self._time_wait()
        else:
            await self._take_slot()
        try:
            return self._idle_one() or await self._connect_or_wait()
        except BaseException:
            self._slots.release()
            raise

    def release(self, connection: Connection) -> None:
        """Give back a connection that is in order and in no transaction."""
        self._put(connection)
        self._slots.release()

    def discard(self, connection: Connection) -> None:
        """Give back a connection that must not be used again; the server rolls it back."""
        connection.terminate()
        self._note_fewer()
        self._slots.release()

    def give_back(self, connection: Connection, *, is_sound: bool) -> None:
        """Give back a connection, to be used again if it is in order."""
        if is_sound:
            self.release(connection)
        else:
            self.discard(connection)

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

    def _put(self, connection: Connection) -> None:
        """Hand a connection to who waits for it; otherwise it is idle."""
        if not self._answer(connection):
            self._busy -= 1
            self._idle.append(connection)

    def _note_fewer(self) -> None:
        """There is one fewer: the server may have a place for who waits."""
        self._busy -= 1
        self._answer(None)

    def _answer(self, connection: Connection | None) -> bool:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(connection)
                return True
        return False

    async def _connect_or_wait(self) -> Connection:
        """Connect; if the server has no place for more, wait for one of those that are in use."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._server.connect_timeout_ms / 1000
        while True:
            self._busy += 1
            try:
                return await connect(self._server)
            except BaseException as error:
                self._busy -= 1
                is_crowd = is_crowded(error.__cause__) and loop.time() < end
                if is_crowd and (idle := self._idle_one()) is not None:
                    return idle
                if not (is_crowd and self._busy):
                    # Nobody is left who could give one back.
                    self._answer(None)
                    raise
            if (given := await self._wait_for_other(end)) is not None:
                return given

    async def _wait_for_other(self, end: float) -> Connection | None:
        """Wait for a connection that somebody gives back; None if it is time to connect again."""
        waiting: asyncio.Future[Connection | None]
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout_at(end):
                return await waiting
        except BaseException as error:
            has_answer = waiting.done() and not waiting.cancelled()
            if has_answer and (connection := waiting.result()) is not None:
                # It came while this task gave up.
                self._put(connection)
            if isinstance(error, TimeoutError):
                return None
            raise

    def _idle_one(self) -> Connection | None:
        if self._is_closed:
            raise StoreUnavailable(store=self._server.name, problem="it is closed")
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                self._busy += 1
                return connection
        return None

    async def _time_wait(self) -> None:
        now = asyncio.get_running_loop().time
        began = now()
        try:
            await self._take_slot()
        finally:
            for watcher in self._watchers:
                watcher.on_pool_wait((now() - began) * 1000)

    async def _take_slot(self) -> None:
        limit_ms = self._server.connect_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._slots.acquire()
        except TimeoutError as error:
            problem = f"pool exhausted: all {self._size} connections were busy for {limit_ms} ms"
            raise StoreUnavailable(store=self._server.name, problem=problem) from error
