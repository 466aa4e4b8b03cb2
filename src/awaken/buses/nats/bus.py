"""The bus between processes that reach the same NATS server or cluster."""

import asyncio
import itertools
import logging
import random
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import msgspec

from awaken.buses.memory import Subscriptions
from awaken.buses.outgoing import Outgoing, PacketParts
from awaken.contracts.errors import InvalidInput
from awaken.contracts.storage.bus import BusWatcher, Signal, SignalKind, Unsubscribe

from .address import parse_address
from .connection import NatsConnection

logger = logging.getLogger(__name__)

SIGNAL_MAX = 8_000
"""The largest signal, in bytes."""

PART_MAX = 512 * 1024
"""How much of a packet one message carries."""

RETRY_S = 0.1
RETRY_MAX_S = 2.0
"""The pause after all servers were tried in vain; it doubles up to the longest."""

STEADY_S = 1.0
"""A connection that lasted as long was a good one: the next server is tried at once."""

LAST_S = 0.5
"""How long a close waits until what was told before is sent."""

_HEAD_MAX = 64
"""More than the head of a part takes."""
_NODE = re.compile(r"[a-z0-9]{1,64}")
_SIGNAL, _PART = b"s", b"p"
"""The first byte of a message; what begins otherwise is not ours."""
_DECODE = msgspec.json.Decoder(Signal).decode


class NatsBus:
    """A `Bus` over one connection of its own, to one of the servers in its URL.

    If the connection breaks, or does not answer for `probe_ms`, the bus connects to the next
    server, for ever; what is sent meanwhile is lost, and counted in `dropped`. Equal signals that
    wait together are sent once. Listeners also receive the signals of their own process.

    A process hears the subject of all, that of each of its nodes and that of each thread it
    follows. Ids of threads do not stand in subjects. What others publish there is ignored.
    """

    def __init__(self, url: str, *, connect_timeout_ms: int = 5_000, probe_ms: int = 2_000) -> None:
        self._address = parse_address(url)
        self.name = self._address.name
        self._root = f"aw.{self._address.options.namespace}"
        self._connect_s = connect_timeout_ms / 1000
        self._probe_s = probe_ms / 1000
        self._local = Subscriptions(self._hear_node, self._hear_thread)
        self._outgoing = Outgoing(self._local)
        self._parts = PacketParts()
        self._subjects: Counter[str] = Counter([f"{self._root}.all"])
        """What is to be heard, with how many nodes and threads need each."""
        self.ignored = 0
        """How many messages were not from a bus of this version."""
        self._wake = asyncio.Event()
        self._is_sent = asyncio.Event()
        """Set while nothing waits to be sent."""
        self._is_sent.set()
        self._is_changed = False
        """Whether other subjects are to be heard than before."""
        self._connection: NatsConnection | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def watchers(self) -> list[BusWatcher]:
        """Who is told what becomes of signals."""
        return self._local.watchers

    @property
    def dropped(self) -> int:
        """How many signals and packets could not be sent, or came faster than they were taken."""
        return self._outgoing.dropped

    @property
    def is_up(self) -> bool:
        """Whether it has a connection."""
        return self._connection is not None and self._connection.is_connected

    async def open(self) -> None:
        """Start to connect; calling it twice is harmless.

        Returns when there is a connection, or when every server was tried in vain: nothing
        depends on a bus, so that a process can start without one. It goes on trying.

        Raises:
            InvalidInput: A file that the URL names cannot be read.
        """
        if self._task is None:
            login = self._address.login()
            tried = asyncio.Event()
            self._task = asyncio.create_task(self._serve(login, tried), name=f"bus {self.name}")
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._connect_s):
                        await tried.wait()
            except BaseException:
                await self.close()
                raise

    async def close(self) -> None:
        """Send what waits, unless that takes long; then no listener is called any more."""
        if self.is_up:
            # A command tells its one signal and ends.
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_S):
                    await self._is_sent.wait()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def tell(self, signal: Signal, to: str | None = None) -> None:
        """Send a signal soon; signals that are pending together share one round trip."""
        subject = self._signal_subject(signal, to)
        if subject is None or not self.is_up:
            # Listeners poll the store; what is told in an outage would only come late.
            self._outgoing.drop_signal(signal.kind)
            return
        payload = self._outgoing.encode_signal(signal, SIGNAL_MAX)
        if payload is None:
            return
        self._outgoing.add_signal(subject, _SIGNAL + payload, signal.kind)
        self._is_sent.clear()
        self._wake.set()

    def send(self, to: str, payload: bytes) -> bool:
        """Send a packet soon, cut into parts; packets to one node arrive in order."""
        if not self.is_up or not _NODE.fullmatch(to):
            self._outgoing.dropped += 1
            return False
        if not self._outgoing.add_packet(self._node_subject(to), payload):
            return False
        self._is_sent.clear()
        self._wake.set()
        return True

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        """Call the listener with every signal; returns a function that stops it, callable twice."""
        return self._local.subscribe(listener)

    def receive(self, node: str, take: Callable[[bytes], None]) -> Unsubscribe:
        """Call back with every packet to a node; returns a function that stops it.

        Raises:
            InvalidInput: The address has something else than lower-case letters and digits.
        """
        if not _NODE.fullmatch(node):
            problem = "the address of a node has 1 to 64 lower-case letters and digits"
            raise InvalidInput(what=f"node '{node}'", problem=problem)
        return self._local.receive(node, take)

    def follow(self, thread_id: str | None) -> Unsubscribe:
        """Hear `RUN_CHANGED` of a thread, or of all, until the returned function is called."""
        return self._local.follow(thread_id)

    def _signal_subject(self, signal: Signal, to: str | None) -> str | None:
        if to is not None:
            return self._node_subject(to) if _NODE.fullmatch(to) else None
        if signal.kind is SignalKind.RUN_CHANGED:
            return self._thread_subject(signal.thread_id)
        return f"{self._root}.all"

    def _node_subject(self, node: str) -> str:
        return f"{self._root}.n.{node}"

    def _thread_subject(self, thread_id: str) -> str:
        # A subject may be seen by more eyes than a message, and an id may have any character.
        digest = blake2b(thread_id.encode(errors="replace"), digest_size=8)
        return f"{self._root}.t.{digest.hexdigest()}"

    def _hear_node(self, node: str, more: int) -> None:
        self._want(self._node_subject(node), more)

    def _hear_thread(self, thread_id: str | None, more: int) -> None:
        every = f"{self._root}.t.*"
        self._want(every if thread_id is None else self._thread_subject(thread_id), more)

    def _want(self, subject: str, more: int) -> None:
        """Need a subject, or no longer; the serving task hears what has changed."""
        self._subjects[subject] += more
        if not self._subjects[subject]:
            del self._subjects[subject]
        self._is_changed = True
        self._wake.set()

    def _list_subjects(self) -> set[str]:
        """What is to be heard now; each message by one subject only."""
        topics = f"{self._root}.t."
        every = f"{topics}*"
        if every not in self._subjects:
            return set(self._subjects)
        return {it for it in self._subjects if it == every or not it.startswith(topics)}

    async def _serve(self, login: dict[str, Any], tried: asyncio.Event) -> None:
        """Carry over one connection after another, until cancelled."""
        servers = list(self._address.servers)
        # Not all processes at one server, and not all at the same one after an outage.
        random.shuffle(servers)
        told, pause_s, now = set[str](), RETRY_S, asyncio.get_running_loop().time
        for number in itertools.count(1):
            connection = NatsConnection(self._take, self._wake.set, is_tls=self._address.is_tls)
            since: float | None = None
            try:
                await connection.reach(servers[number % len(servers)], self._connect_s, login)
                await self._listen(connection)
                since, self._connection = now(), connection
                tried.set()
                await self._carry(connection)
            except Exception as error:  # noqa: BLE001 - a server may say anything
                problem = connection.problem or str(error) or "it did not answer in time"
                if problem not in told:
                    logger.warning("The bus on %s has no connection: %s", self.name, problem)
                told.add(problem)
            finally:
                self._drop_outgoing()
                await connection.leave()
            if self._task is None:
                return
            if since is not None and now() - since >= STEADY_S:
                told, pause_s = set(), RETRY_S
            elif since is not None or number % len(servers) == 0:
                # All were tried in vain, or one lets in and sends away again.
                tried.set()
                await asyncio.sleep(pause_s * random.uniform(0.5, 1))
                pause_s = min(pause_s * 2, RETRY_MAX_S)

    async def _carry(self, connection: NatsConnection) -> None:
        """Send what waits; without anything, check that the server still answers."""
        # Asked each time: the client may swallow the cancellation if its answer comes just then.
        while self._task is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._probe_s):
                    await self._wake.wait()
            self._wake.clear()
            if self._is_changed:
                await self._listen(connection)
            # A server may be set to take only small messages.
            part_max = max(1, min(PART_MAX, connection.max_payload - _HEAD_MAX))
            batch = self._outgoing.take()
            try:
                for subject, payload in batch[0]:
                    await connection.publish(subject, payload)
                for subject, payload in batch[1]:
                    for part in self._parts.cut(payload, part_max):
                        await connection.publish(subject, _PART + part)
                await connection.ask_server(self._probe_s)
                self._outgoing.confirm(batch)
                if self._outgoing.is_empty:
                    self._is_sent.set()
            except BaseException:
                self._outgoing.drop(batch)
                raise
            finally:
                self._outgoing.dropped += connection.overrun
                connection.overrun = 0

    async def _listen(self, connection: NatsConnection) -> None:
        """Hear what is to be heard; who follows a thread that was not heard looks at it."""
        self._is_changed = False
        fresh = await connection.hear(self._list_subjects(), self._probe_s)
        if not fresh:
            return
        if self._connection is None:
            # Nobody hears it: a user who may not publish is noticed before a signal is lost.
            await connection.publish(f"{self._root}.n.0", b"")
        await connection.ask_server(self._probe_s)
        for thread_id in tuple(self._local.followed):
            if thread_id is not None and self._thread_subject(thread_id) in fresh:
                self._local.call_for_unheard(thread_id)

    def _drop_outgoing(self) -> None:
        self._connection = None
        self._outgoing.drop(self._outgoing.take())
        self._is_sent.set()
        self._parts.forget()

    def _take(self, subject: str, message: bytes) -> None:
        if self._task is None:
            # Heard while the bus closes.
            return
        kind, body = message[:1], message[1:]
        if kind == _PART:
            self._take_part(subject, body)
            return
        try:
            signal = _DECODE(body) if kind == _SIGNAL else None
        except (msgspec.DecodeError, ValueError):
            signal = None
        if signal is None:
            self._ignore(subject)
            return
        is_topic = subject.startswith(f"{self._root}.t.")
        # No longer followed, or another thread with the same digest.
        if not is_topic or self._local.is_followed(signal.thread_id):
            self._local.call_listeners(signal)

    def _take_part(self, subject: str, body: bytes) -> None:
        try:
            packet = self._parts.join(subject, body)
        except ValueError:
            self._ignore(subject)
            return
        if packet is not None:
            self._local.deliver_packet(subject.removeprefix(self._node_subject("")), packet)

    def _ignore(self, subject: str) -> None:
        if self.ignored == 0:
            logger.warning("A message on '%s' is not from this bus; it is ignored.", subject)
        self.ignored += 1
