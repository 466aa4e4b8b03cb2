"""The bus between processes that share a Postgres database: LISTEN and NOTIFY."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from awaken.contracts.errors import InvalidInput, StoreUnavailable
from awaken.contracts.storage.bus import Signal, Unsubscribe

try:
    import asyncpg
except ModuleNotFoundError as error:
    _MESSAGE = "The Postgres bus needs its driver: pip install 'awaken[postgres]'"
    raise ModuleNotFoundError(_MESSAGE, name="asyncpg") from error

logger = logging.getLogger(__name__)

Connection: TypeAlias = asyncpg.Connection

PAYLOAD_MAX = 7_999
"""The maximum size of a NOTIFY payload, in bytes."""

OUTGOING_MAX = 10_000
"""How many signals wait for the server; of more, the oldest are lost."""

RETRY_S = 0.1

_CHANNEL_MAX = 63
_NOTIFY = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload"
_BROKEN = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
_DECODE = msgspec.json.Decoder(Signal).decode


class PostgresBus:
    """A `Bus` over one connection of its own.

    If the connection breaks, or does not answer for `probe_ms`, the bus reconnects as soon as the
    server is available; signals sent meanwhile are lost, and counted in `lost`. Equal signals that
    wait together are sent once. Listeners also receive the signals of their own process.
    """

    def __init__(
        self,
        url: str,
        *,
        channel: str = "awaken",
        connect_timeout_ms: int = 5_000,
        probe_ms: int = 2_000,
    ) -> None:
        self.name = _describe_url(url)
        if not 0 < len(channel.encode()) <= _CHANNEL_MAX or "\0" in channel:
            problem = f"its name must have 1 to {_CHANNEL_MAX} bytes"
            raise InvalidInput(what=f"channel '{channel}'", problem=problem)
        self._url = url
        self._channel = channel
        self._connect_s = connect_timeout_ms / 1000
        self._probe_s = probe_ms / 1000
        self._listeners: dict[object, Callable[[Signal], None]] = {}
        self.lost = 0
        """How many signals could not be sent."""
        self._outgoing: dict[str, None] = {}
        """The payloads that wait to be sent, oldest first."""
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect and start to listen; calling it twice is harmless.

        Raises:
            StoreUnavailable: The server cannot be reached.
        """
        if self._task is None:
            connection = await self._connect()
            self._task = asyncio.create_task(self._serve(connection), name=f"bus {self.name}")
            self._connection = connection

    async def close(self) -> None:
        """Stop; no listener is called any more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            self._drop_connection()

    def tell(self, signal: Signal) -> None:
        """Send a signal soon; signals that are pending together share one round trip."""
        payload = msgspec.json.encode(signal).decode()
        if self._connection is None:
            # Listeners poll the store; what is told in an outage would only come late.
            self.lost += 1
            return
        if len(payload) > PAYLOAD_MAX // 4 and len(payload.encode()) > PAYLOAD_MAX:
            self.lost += 1
            logger.warning("A signal of thread '%s…' is too long.", signal.thread_id[:64])
            return
        self._outgoing[payload] = None
        if len(self._outgoing) > OUTGOING_MAX:
            del self._outgoing[next(iter(self._outgoing))]
            self.lost += 1
        self._wake.set()

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        """Call the listener with every signal; returns a function that stops it, callable twice."""
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    async def _serve(self, connection: Connection) -> None:
        """Send signals over one connection after another, until cancelled."""
        while True:
            try:
                await self._carry(connection)
            except _BROKEN as error:
                logger.warning("The bus on %s broke, connecting again: %s", self.name, error)
            self._drop_connection()
            connection = self._connection = await self._reconnect()

    async def _reconnect(self) -> Connection:
        while True:
            with suppress(StoreUnavailable):
                return await self._connect()
            await asyncio.sleep(RETRY_S)

    async def _carry(self, connection: Connection) -> None:
        """Send published signals; without any, check that the server still answers."""
        connection.add_termination_listener(lambda _: self._wake.set())
        while True:
            await self._wait_for_outgoing()
            batch, self._outgoing = self._outgoing, {}
            try:
                async with asyncio.timeout(self._probe_s):
                    await connection.execute(_NOTIFY, self._channel, list(batch))
            except BaseException:
                self.lost += len(batch)
                raise

    async def _wait_for_outgoing(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._probe_s):
                await self._wake.wait()
        self._wake.clear()

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
        self.lost += len(self._outgoing)
        self._outgoing.clear()

    async def _connect(self) -> Connection:
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self._connect_s):
                connection = await asyncpg.connect(self._url)
                # A signal may be lost, so its commit need not wait for the disk.
                await connection.execute("SET synchronous_commit = off")
                await connection.add_listener(self._channel, self._on_notify)
        except BaseException as error:
            if connection is not None:
                connection.terminate()
            if isinstance(error, TimeoutError):
                raise self._unavailable("it did not answer in time") from error
            if isinstance(error, ValueError):
                # Not chained: its text may be a piece of the password.
                raise self._unavailable("the driver cannot read its URL") from None
            if isinstance(error, _BROKEN):
                raise self._unavailable(str(error)) from error
            raise
        return connection

    def _unavailable(self, problem: str = "the bus has no connection") -> StoreUnavailable:
        return StoreUnavailable(store=self.name, problem=problem)

    def _on_notify(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        try:
            signal = _DECODE(str(payload))
        except (msgspec.DecodeError, ValueError):
            logger.warning("A payload on channel '%s' is not a signal.", self._channel)
            return
        for listener in tuple(self._listeners.values()):
            try:
                listener(signal)
            except Exception:
                # A listener that fails must not keep the signal from the others.
                logger.exception("A listener failed on signal '%s'.", signal.kind)


def _describe_url(url: str) -> str:
    """The address in a URL, without the password and the options."""
    try:
        parts = urlsplit(url)
        port, options = parts.port, parse_qs(parts.query)
    except ValueError:
        # Not chained: its text may be a piece of the password.
        problem = "its host or port cannot be read; encode special characters"
        raise InvalidInput(what="the URL of the Postgres bus", problem=problem) from None
    user = f"{parts.username}@" if parts.username else ""
    host = parts.hostname or options.get("host", ["localhost"])[0]
    return unquote(f"postgresql://{user}{host}:{port or 5432}/{parts.path.strip('/')}")
