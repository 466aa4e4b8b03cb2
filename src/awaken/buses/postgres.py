"""The bus between processes that share a Postgres database: LISTEN and NOTIFY."""

import asyncio
import base64
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias
from zlib import crc32

import msgspec

from awaken.contracts.errors import InvalidInput, StoreUnavailable
from awaken.contracts.storage.bus import (
    PACKET_MAX,
    BusWatcher,
    Signal,
    SignalKind,
    Unsubscribe,
)
from awaken.outbound.postgres_hosts import PostgresHosts

from .memory import Subscriptions
from .outgoing import Batch, Outgoing, PacketParts

try:
    import asyncpg
except ModuleNotFoundError as error:
    _MESSAGE = "The Postgres bus needs its driver: pip install 'awaken[postgres]'"
    raise ModuleNotFoundError(_MESSAGE, name="asyncpg") from error

logger = logging.getLogger(__name__)

Connection: TypeAlias = asyncpg.Connection

PAYLOAD_MAX = 7_999
"""The maximum size of a NOTIFY payload, in bytes."""

PART_MAX = 7_000
"""How much of an encoded packet one NOTIFY carries."""

TOPICS = 64
"""Over how many channels the threads are spread."""

RETRY_S = 0.1
LAST_S = 0.5
"""How long a close waits until what was told before is sent."""

_CHANNEL_MAX = 48
"""Of 63 bytes, the rest is for the address of a node."""
_NOTIFIES = 200
"""How many payloads one statement sends."""
_NOTIFY = "SELECT pg_notify(c, p) FROM unnest($1::text[], $2::text[]) AS waiting (c, p)"
_BROKEN = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
_DECODE = msgspec.json.Decoder(Signal).decode


class PostgresBus:
    """A `Bus` over one connection of its own.

    If the connection breaks, or does not answer for `probe_ms`, the bus reconnects as soon as the
    server is available; what is sent meanwhile is lost, and counted in `dropped`. Equal signals
    that wait together are sent once. Listeners also receive the signals of their own process.

    Signals for all go over `channel`, those of a thread over one of `TOPICS` channels and what is
    for a node over a channel of its own, so that a process is woken by what it listens to only.
    """

    def __init__(
        self,
        url: str,
        *,
        channel: str = "awaken",
        connect_timeout_ms: int = 5_000,
        probe_ms: int = 2_000,
    ) -> None:
        self._hosts = PostgresHosts(url, "the URL of the Postgres bus")
        self.name = self._hosts.name
        if not 0 < len(channel.encode()) <= _CHANNEL_MAX or "\0" in channel:
            problem = f"its name must have 1 to {_CHANNEL_MAX} bytes"
            raise InvalidInput(what=f"channel '{channel}'", problem=problem)
        self._channel = channel
        self._connect_s = connect_timeout_ms / 1000
        self._probe_s = probe_ms / 1000
        self._local = Subscriptions(self._hear_node, self._hear_thread)
        self._outgoing = Outgoing(self._local)
        self._parts = PacketParts(2 * PACKET_MAX)
        """Of packets in base 64."""
        self._channels: Counter[str] = Counter([channel])
        """The channels to listen to, with how many nodes and threads need each."""
        self._wake = asyncio.Event()
        self._is_sent = asyncio.Event()
        """Set while nothing waits for the connection."""
        self._is_sent.set()
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def watchers(self) -> list[BusWatcher]:
        """Who is told what becomes of signals."""
        return self._local.watchers

    @property
    def dropped(self) -> int:
        """How many signals and packets could not be sent."""
        return self._outgoing.dropped

    @property
    def is_up(self) -> bool:
        """Whether it has a connection."""
        return self._connection is not None

    async def open(self) -> None:
        """Connect and start to listen; calling it twice is harmless.

        Raises:
            StoreUnavailable: The server cannot be reached.
        """
        if self._task is None:
            connection, channels = await self._connect()
            self._connection = connection
            serving = self._serve(connection, channels)
            self._task = asyncio.create_task(serving, name=f"bus {self.name}")

    async def close(self) -> None:
        """Send what waits, unless that takes long; then no listener is called any more."""
        if self._connection is not None:
            # A command tells its one signal and ends.
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_S):
                    await self._is_sent.wait()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            self._drop_connection()

    def tell(self, signal: Signal, to: str | None = None) -> None:
        """Send a signal soon; signals that are pending together share one round trip."""
        if self._connection is None:
            # Listeners poll the store; what is told in an outage would only come late.
            self._outgoing.drop_signal(signal.kind)
            return
        payload = self._outgoing.encode_signal(signal, PAYLOAD_MAX)
        if payload is None:
            return
        if to is not None:
            channel = self._node_channel(to)
        elif signal.kind is SignalKind.RUN_CHANGED:
            channel = self._topic_channel(signal.thread_id)
        else:
            channel = self._channel
        self._outgoing.add_signal(channel, payload, signal.kind)
        self._is_sent.clear()
        self._wake.set()

    def send(self, to: str, payload: bytes) -> bool:
        """Send a packet soon, cut into parts; packets to one node arrive in order."""
        if self._connection is None:
            self._outgoing.dropped += 1
            return False
        if not self._outgoing.add_packet(self._node_channel(to), payload):
            return False
        self._is_sent.clear()
        self._wake.set()
        return True

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        """Call the listener with every signal; returns a function that stops it, callable twice."""
        return self._local.subscribe(listener)

    def receive(self, node: str, take: Callable[[bytes], None]) -> Unsubscribe:
        """Call back with every packet to a node; returns a function that stops it."""
        return self._local.receive(node, take)

    def follow(self, thread_id: str | None) -> Unsubscribe:
        """Hear `RUN_CHANGED` of a thread, or of all, until the returned function is called."""
        return self._local.follow(thread_id)

    def _node_channel(self, node: str) -> str:
        return f"{self._channel}_n_{node}"

    def _topic_channel(self, thread_id: str) -> str:
        return f"{self._channel}_t_{crc32(thread_id.encode(errors='replace')) % TOPICS:02x}"

    def _hear_node(self, node: str, more: int) -> None:
        self._want(self._node_channel(node), more)

    def _hear_thread(self, thread_id: str | None, more: int) -> None:
        if thread_id is not None:
            self._want(self._topic_channel(thread_id), more)
            return
        for topic in range(TOPICS):
            self._want(f"{self._channel}_t_{topic:02x}", more)

    def _want(self, channel: str, more: int) -> None:
        """Need a channel, or no longer; the serving task listens to what has changed."""
        self._channels[channel] += more
        if not self._channels[channel]:
            del self._channels[channel]
        self._wake.set()

    async def _serve(self, connection: Connection, channels: set[str]) -> None:
        """Send over one connection after another, until cancelled."""
        while True:
            try:
                await self._carry(connection, channels)
            except Exception as error:  # noqa: BLE001 - a driver may raise anything
                logger.warning("The bus on %s broke, connecting again: %s", self.name, error)
            self._drop_connection()
            connection, channels = await self._reconnect()
            self._connection = connection

    async def _reconnect(self) -> "tuple[Connection, set[str]]":
        while True:
            # Whatever it is: a bus that gave up would be deaf until its process ends.
            with suppress(Exception):
                return await self._connect()
            await asyncio.sleep(RETRY_S)

    async def _carry(self, connection: Connection, channels: set[str]) -> None:
        """Send what waits; without anything, check that the server still answers."""
        connection.add_termination_listener(lambda _: self._wake.set())
        while True:
            await self._wait_for_outgoing()
            async with asyncio.timeout(self._probe_s):
                await self._listen(connection, channels)
            batch = self._outgoing.take()
            notifies = self._list_notifies(batch)
            try:
                for first in range(0, len(notifies) or 1, _NOTIFIES):
                    some = notifies[first : first + _NOTIFIES]
                    async with asyncio.timeout(self._probe_s):
                        await connection.execute(
                            _NOTIFY, [it[0] for it in some], [it[1] for it in some]
                        )
            except BaseException:
                self._outgoing.drop(batch)
                raise
            self._outgoing.confirm(batch)
            if self._outgoing.is_empty:
                self._is_sent.set()

    async def _listen(self, connection: Connection, channels: set[str]) -> None:
        """Listen to the channels that are needed, and no longer to others."""
        if channels == self._channels.keys():
            return
        fresh = [it for it in self._channels if it not in channels]
        for channel in fresh:
            channels.add(channel)
            await connection.add_listener(channel, self._on_notify)
        for channel in [it for it in channels if it not in self._channels]:
            channels.discard(channel)
            await connection.remove_listener(channel, self._on_notify)
        for thread_id in tuple(self._local.followed):
            if thread_id is not None and self._topic_channel(thread_id) in fresh:
                self._local.call_for_unheard(thread_id)

    def _list_notifies(self, batch: Batch) -> list[tuple[str, str]]:
        """Return channels and payloads: a signal is JSON, a part of a packet is not."""
        signals, packets = batch
        found = [(channel, payload.decode()) for channel, payload in signals]
        for channel, packet in packets:
            parts = self._parts.cut(base64.b64encode(packet), PART_MAX)
            found += ((channel, part.decode()) for part in parts)
        return found

    async def _wait_for_outgoing(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._probe_s):
                await self._wake.wait()
        self._wake.clear()

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
        self._outgoing.drop(self._outgoing.take())
        self._is_sent.set()
        self._parts.forget()

    async def _connect(self) -> "tuple[Connection, set[str]]":
        try:
            return await self._hosts.connect(self._connect_host, self._connect_s, _BROKEN)
        except TimeoutError as error:
            raise self._unavailable("it did not answer in time") from error
        except asyncpg.ClientConfigurationError as error:
            # An option is wrong, or a file that it names is not there.
            raise self._unavailable(" ".join(str(error).split()).rstrip(".")) from None
        except ValueError:
            # Not chained: its text may be a piece of the password.
            raise self._unavailable("the driver cannot read its URL") from None
        except _BROKEN as error:
            raise self._unavailable(str(error)) from error

    async def _connect_host(self, url: str) -> "tuple[Connection, set[str]]":
        connection = await asyncpg.connect(url)
        try:
            # A signal may be lost, so its commit need not wait for the disk.
            await connection.execute("SET synchronous_commit = off")
            channels: set[str] = set()
            await self._listen(connection, channels)
        except BaseException:
            connection.terminate()
            raise
        return connection, channels

    def _unavailable(self, problem: str = "the bus has no connection") -> StoreUnavailable:
        return StoreUnavailable(store=self.name, problem=problem)

    def _on_notify(self, _connection: object, _pid: int, channel: str, payload: object) -> None:
        text = str(payload)
        if not text.startswith("{"):
            self._take_part(channel, text)
            return
        try:
            signal = _DECODE(text)
        except (msgspec.DecodeError, ValueError):
            logger.warning("A payload on channel '%s' is not a signal.", channel)
            return
        is_topic = channel.startswith(f"{self._channel}_t_")
        # A channel has many threads.
        if not is_topic or self._local.is_followed(signal.thread_id):
            self._local.call_listeners(signal)

    def _take_part(self, channel: str, text: str) -> None:
        try:
            whole = self._parts.join(channel, text.encode())
            packet = None if whole is None else base64.b64decode(whole, validate=True)
        except ValueError:
            logger.warning("A payload on channel '%s' is neither signal nor packet.", channel)
            return
        if packet is not None:
            self._local.deliver_packet(channel.removeprefix(self._node_channel("")), packet)
