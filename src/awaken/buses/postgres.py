"""The bus between processes that share a Postgres database: LISTEN and NOTIFY."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from awaken.contracts.errors import InvalidInput, InvalidRecord, StoreUnavailable
from awaken.contracts.storage.bus import Signal, Unsubscribe

try:
    import asyncpg
except ModuleNotFoundError as error:
    _MESSAGE = "The Postgres bus needs its driver: pip install 'awaken[postgres]'"
    raise ModuleNotFoundError(_MESSAGE, name="asyncpg") from error

logger = logging.getLogger(__name__)

Connection: TypeAlias = asyncpg.Connection

PAYLOAD_MAX = 7_999
"""How many bytes the server carries in one signal."""

RETRY_S = 0.1

_CHANNEL_MAX = 63
_NOTIFY = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload"
_BROKEN = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
_DECODE = msgspec.json.Decoder(Signal).decode


class PostgresBus:
    """A `Bus` over one connection of its own.

    When the connection breaks, or answers nothing for `probe_ms`, another one is made as soon as
    the server is there; what was sent meanwhile is lost. Those who listen hear their own signals
    as well.
    """

    def __init__(
        self,
        url: str,
        *,
        channel: str = "awaken",
        connect_timeout_ms: int = 5_000,
        probe_ms: int = 2_000,
    ) -> None:
        self.name = _name_of(url)
        if not 0 < len(channel.encode()) <= _CHANNEL_MAX or "\0" in channel:
            problem = f"its name must have 1 to {_CHANNEL_MAX} bytes"
            raise InvalidInput(what=f"channel '{channel}'", problem=problem)
        self._url = url
        self._channel = channel
        self._connect_s = connect_timeout_ms / 1000
        self._probe_s = probe_ms / 1000
        self._listeners: dict[object, Callable[[Signal], None]] = {}
        self._outgoing: list[tuple[str, asyncio.Future[None]]] = []
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect and begin to listen; calling it twice is harmless.

        Raises:
            StoreUnavailable: The server cannot be reached.
        """
        if self._task is None:
            connection = await self._connected()
            self._task = asyncio.create_task(self._serve(connection), name=f"bus {self.name}")
            self._connection = connection

    async def close(self) -> None:
        """Stop; nobody hears anything any more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            self._drop_connection()

    async def publish(self, signal: Signal) -> None:
        """Send a signal; signals that wait together share one round trip.

        Raises:
            StoreUnavailable: There is no connection now, or it broke.
            InvalidRecord: The signal is larger than the server carries.
        """
        payload = msgspec.json.encode(signal).decode()
        if len(payload.encode()) > PAYLOAD_MAX:
            problem = f"its signal has over {PAYLOAD_MAX} bytes"
            raise InvalidRecord(what=f"Thread '{signal.thread_id[:64]}…'", problem=problem)
        if self._connection is None:
            raise self._lost()
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._outgoing.append((payload, sent))
        self._wake.set()
        await sent

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        """Call back with every signal; returns the way to stop that, which may be used twice."""
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    async def _serve(self, connection: Connection) -> None:
        """Carry signals over one connection after the other, until cancelled."""
        while True:
            try:
                await self._carry(connection)
            except _BROKEN as error:
                logger.warning("The bus on %s broke, connecting again: %s", self.name, error)
            self._drop_connection()
            connection = self._connection = await self._connected_again()

    async def _connected_again(self) -> Connection:
        while True:
            with suppress(StoreUnavailable):
                return await self._connected()
            await asyncio.sleep(RETRY_S)

    async def _carry(self, connection: Connection) -> None:
        """Send what is published; with nothing to send, ask whether the server is still there."""
        connection.add_termination_listener(lambda _: self._wake.set())
        while True:
            await self._wait_for_outgoing()
            batch, self._outgoing = self._outgoing, []
            try:
                async with asyncio.timeout(self._probe_s):
                    payloads = [payload for payload, _ in batch]
                    await connection.execute(_NOTIFY, self._channel, payloads)
            except BaseException:
                self._outgoing = batch + self._outgoing
                raise
            for _, sent in batch:
                if not sent.done():
                    sent.set_result(None)

    async def _wait_for_outgoing(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._probe_s):
                await self._wake.wait()
        self._wake.clear()

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
        outgoing, self._outgoing = self._outgoing, []
        for _, sent in outgoing:
            if not sent.done():
                sent.set_exception(self._lost())

    async def _connected(self) -> Connection:
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self._connect_s):
                connection = await asyncpg.connect(self._url)
                # A signal may be lost: nobody has to wait for the disk.
                await connection.execute("SET synchronous_commit = off")
                await connection.add_listener(self._channel, self._heard)
        except BaseException as error:
            if connection is not None:
                connection.terminate()
            if isinstance(error, TimeoutError):
                raise self._lost("it did not answer in time") from error
            if isinstance(error, ValueError):
                # Not chained: its text may be a piece of the password.
                raise self._lost("the driver cannot read its URL") from None
            if isinstance(error, _BROKEN):
                raise self._lost(str(error)) from error
            raise
        return connection

    def _lost(self, problem: str = "the bus has no connection") -> StoreUnavailable:
        return StoreUnavailable(store=self.name, problem=problem)

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        try:
            signal = _DECODE(str(payload))
        except (msgspec.DecodeError, ValueError):
            logger.warning("Something on channel '%s' is no signal.", self._channel)
            return
        for listener in tuple(self._listeners.values()):
            try:
                listener(signal)
            except Exception:
                # One bad listener must not keep the others from hearing.
                logger.exception("A listener failed on signal '%s'.", signal.kind)


def _name_of(url: str) -> str:
    """What a URL points at, without the password and the options."""
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
