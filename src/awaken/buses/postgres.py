"""The bus between processes that share a Postgres database: LISTEN and NOTIFY."""

import asyncio
import base64
import logging
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit
from zlib import crc32

import msgspec

from awaken.contracts.errors import InvalidInput, StoreUnavailable
from awaken.contracts.storage.bus import PACKET_MAX, Signal, SignalKind, Unsubscribe

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

OUTGOING_MAX = 10_000
"""How many signals wait for the server; of more, the oldest are lost."""

TOPICS = 64
"""Over how many channels the threads are spread."""

RETRY_S = 0.1

_CHANNEL_MAX = 48
"""Of 63 bytes, the rest is for the address of a node."""
_NOTIFIES = 200
"""How many payloads one statement sends."""
_PARTIAL_MAX = 100
"""From how many senders parts of packets are kept."""
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
        self.name = _describe_url(url)
        if not 0 < len(channel.encode()) <= _CHANNEL_MAX or "\0" in channel:
            problem = f"its name must have 1 to {_CHANNEL_MAX} bytes"
            raise InvalidInput(what=f"channel '{channel}'", problem=problem)
        self._url = url
        self._channel = channel
        self._connect_s = connect_timeout_ms / 1000
        self._probe_s = probe_ms / 1000
        self._listeners: dict[object, Callable[[Signal], None]] = {}
        self._takers: dict[object, tuple[str, Callable[[bytes], None]]] = {}
        """Who takes packets, with the channel of the node."""
        self._followed: Counter[str | None] = Counter()
        self._channels: Counter[str] = Counter([channel])
        """The channels to listen to, with how many need each."""
        self.dropped = 0
        """How many signals and packets could not be sent."""
        self._signals: dict[tuple[str, str], None] = {}
        """The signals that wait to be sent, oldest first: channel and payload."""
        self._packets: list[tuple[str, tuple[str, ...]]] = []
        """The packets that wait to be sent: channel and parts."""
        self._waiting: Counter[str] = Counter()
        """How many bytes of packets wait, by channel."""
        self._sender = os.urandom(4).hex()
        self._sent = 0
        self._partial: dict[tuple[str, str], _Partial] = {}
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

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
        """Stop; no listener is called any more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            self._drop_connection()

    def tell(self, signal: Signal, to: str | None = None) -> None:
        """Send a signal soon; signals that are pending together share one round trip."""
        payload = msgspec.json.encode(signal).decode()
        if self._connection is None:
            # Listeners poll the store; what is told in an outage would only come late.
            self.dropped += 1
            return
        if len(payload) > PAYLOAD_MAX // 4 and len(payload.encode()) > PAYLOAD_MAX:
            self.dropped += 1
            logger.warning("A signal of thread '%s…' is too long.", signal.thread_id[:64])
            return
        if to is not None:
            channel = self._node_channel(to)
        elif signal.kind is SignalKind.RUN_CHANGED:
            channel = self._topic_channel(signal.thread_id)
        else:
            channel = self._channel
        self._signals[channel, payload] = None
        if len(self._signals) > OUTGOING_MAX:
            del self._signals[next(iter(self._signals))]
            self.dropped += 1
        self._wake.set()

    def send(self, to: str, payload: bytes) -> bool:
        """Send a packet soon, cut into parts; packets to one node arrive in order."""
        channel = self._node_channel(to)
        is_full = self._waiting[channel] + len(payload) > PACKET_MAX
        if self._connection is None or is_full:
            self.dropped += 1
            return False
        self._sent += 1
        text = base64.b64encode(payload).decode()
        pieces = [text[at : at + PART_MAX] for at in range(0, len(text), PART_MAX)] or [""]
        head = f"{self._sender}.{self._sent}"
        parts = tuple(f"{head}.{at}.{len(pieces)}:{it}" for at, it in enumerate(pieces))
        self._packets.append((channel, parts))
        self._waiting[channel] += len(payload)
        self._wake.set()
        return True

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        """Call the listener with every signal; returns a function that stops it, callable twice."""
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    def receive(self, node: str, take: Callable[[bytes], None]) -> Unsubscribe:
        """Call back with every packet to a node; returns a function that stops it."""
        key, channel = object(), self._node_channel(node)
        self._takers[key] = (channel, take)
        self._want((channel,), 1)

        def stop() -> None:
            if self._takers.pop(key, None) is not None:
                self._want((channel,), -1)

        return stop

    def follow(self, thread_id: str | None) -> Unsubscribe:
        """Hear `RUN_CHANGED` of a thread, or of all, until the returned function is called."""
        if thread_id is None:
            channels = tuple(f"{self._channel}_t_{topic:02x}" for topic in range(TOPICS))
        else:
            channels = (self._topic_channel(thread_id),)
        self._followed[thread_id] += 1
        self._want(channels, 1)
        is_followed = True

        def stop() -> None:
            nonlocal is_followed
            if is_followed:
                is_followed = False
                _count_down(self._followed, thread_id)
                self._want(channels, -1)

        return stop

    def _node_channel(self, node: str) -> str:
        return f"{self._channel}_n_{node}"

    def _topic_channel(self, thread_id: str) -> str:
        return f"{self._channel}_t_{crc32(thread_id.encode(errors='replace')) % TOPICS:02x}"

    def _want(self, channels: tuple[str, ...], more: int) -> None:
        """Need channels, or no longer; the serving task listens to what has changed."""
        for channel in channels:
            if more > 0:
                self._channels[channel] += 1
            else:
                _count_down(self._channels, channel)
        self._wake.set()

    async def _serve(self, connection: Connection, channels: set[str]) -> None:
        """Send over one connection after another, until cancelled."""
        while True:
            try:
                await self._carry(connection, channels)
            except _BROKEN as error:
                logger.warning("The bus on %s broke, connecting again: %s", self.name, error)
            self._drop_connection()
            connection, channels = await self._reconnect()
            self._connection = connection

    async def _reconnect(self) -> "tuple[Connection, set[str]]":
        while True:
            with suppress(StoreUnavailable):
                return await self._connect()
            await asyncio.sleep(RETRY_S)

    async def _carry(self, connection: Connection, channels: set[str]) -> None:
        """Send what waits; without anything, check that the server still answers."""
        connection.add_termination_listener(lambda _: self._wake.set())
        while True:
            await self._wait_for_outgoing()
            async with asyncio.timeout(self._probe_s):
                await self._listen(connection, channels)
            batch = self._take_outgoing()
            try:
                for first in range(0, len(batch) or 1, _NOTIFIES):
                    some = batch[first : first + _NOTIFIES]
                    async with asyncio.timeout(self._probe_s):
                        await connection.execute(
                            _NOTIFY, [it[0] for it in some], [it[1] for it in some]
                        )
            except BaseException:
                self.dropped += len(batch)
                raise

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
        for thread_id in tuple(self._followed):
            if thread_id is not None and self._topic_channel(thread_id) in fresh:
                # What happened between the follow and now was not heard.
                self._call(_look_again(thread_id))

    def _take_outgoing(self) -> list[tuple[str, str]]:
        signals, self._signals = self._signals, {}
        packets, self._packets = self._packets, []
        self._waiting.clear()
        return [*signals, *((channel, part) for channel, parts in packets for part in parts)]

    async def _wait_for_outgoing(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._probe_s):
                await self._wake.wait()
        self._wake.clear()

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
        self.dropped += len(self._signals) + len(self._packets)
        self._take_outgoing()
        self._partial.clear()

    async def _connect(self) -> "tuple[Connection, set[str]]":
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self._connect_s):
                connection = await asyncpg.connect(self._url)
                # A signal may be lost, so its commit need not wait for the disk.
                await connection.execute("SET synchronous_commit = off")
                channels: set[str] = set()
                await self._listen(connection, channels)
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
        if is_topic and not (None in self._followed or signal.thread_id in self._followed):
            # Another thread of the same channel.
            return
        self._call(signal)

    def _call(self, signal: Signal) -> None:
        for listener in tuple(self._listeners.values()):
            try:
                listener(signal)
            except Exception:
                # A listener that fails must not keep the signal from the others.
                logger.exception("A listener failed on signal '%s'.", signal.kind)

    def _take_part(self, channel: str, text: str) -> None:
        """Put a packet together from its parts, which come in order; a hole loses the packet."""
        head, _, piece = text.partition(":")
        try:
            sender, number, part, parts = head.split(".")
            at, count = int(part), int(parts)
        except ValueError:
            logger.warning("A payload on channel '%s' is neither signal nor packet.", channel)
            return
        before = self._partial.pop((channel, sender), None)
        if at == 0:
            before = _Partial(number)
        if before is None or before.number != number or len(before.pieces) != at:
            return
        before.pieces.append(piece)
        if at + 1 < count:
            self._partial[channel, sender] = before
            if len(self._partial) > _PARTIAL_MAX:
                del self._partial[next(iter(self._partial))]
            return
        try:
            packet = base64.b64decode("".join(before.pieces), validate=True)
        except ValueError:
            logger.warning("A packet on channel '%s' is damaged.", channel)
            return
        for wanted, take in tuple(self._takers.values()):
            if wanted == channel:
                try:
                    take(packet)
                except Exception:
                    logger.exception("The taker of channel '%s' failed on a packet.", channel)


class _Partial:
    """A packet of which some parts are still to come."""

    __slots__ = ("number", "pieces")

    def __init__(self, number: str) -> None:
        self.number = number
        self.pieces: list[str] = []


def _look_again(thread_id: str) -> Signal:
    return Signal(kind=SignalKind.RUN_CHANGED, thread_id=thread_id, is_resting=True)


def _count_down(counts: Counter[Any], key: object) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


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
