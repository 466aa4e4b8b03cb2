"""The bus inside one process, and how every bus calls those that listen in its own."""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from awaken.contracts.storage.bus import PACKET_MAX, BusWatcher, Signal, SignalKind, Unsubscribe

logger = logging.getLogger(__name__)


def _hear_anyway(_name: Any, _more: int) -> None:
    """Do nothing: what is inside the process is heard without asking for it."""


class Subscriptions:
    """Whom a bus calls in this process: listeners, nodes, and which threads they follow.

    A carrier hears what is needed here only: it is told of each node and each thread, with 1 when
    it is needed for the first time and -1 when it is needed no longer.
    """

    def __init__(
        self,
        hear_node: Callable[[str, int], None] = _hear_anyway,
        hear_thread: Callable[[str | None, int], None] = _hear_anyway,
    ) -> None:
        self.watchers: list[BusWatcher] = []
        """Who is told what becomes of signals."""
        self._hear_node = hear_node
        self._hear_thread = hear_thread
        self._listeners: dict[object, Callable[[Signal], None]] = {}
        self._takers: dict[object, tuple[str, Callable[[bytes], None]]] = {}
        self.nodes: Counter[str] = Counter()
        """The nodes that take packets here."""
        self.followed: Counter[str | None] = Counter()
        """The threads that are followed; None: all of them."""

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        """Call the listener with every signal; returns a function that stops it, callable twice."""
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    def receive(self, node: str, take: Callable[[bytes], None]) -> Unsubscribe:
        """Call back with every packet to a node; returns a function that stops it."""
        key = object()
        self._takers[key] = (node, take)
        _count(self.nodes, node, 1, self._hear_node)

        def stop() -> None:
            if self._takers.pop(key, None) is not None:
                _count(self.nodes, node, -1, self._hear_node)

        return stop

    def follow(self, thread_id: str | None) -> Unsubscribe:
        """Hear `RUN_CHANGED` of a thread, or of all, until the returned function is called."""
        _count(self.followed, thread_id, 1, self._hear_thread)
        is_followed = True

        def stop() -> None:
            nonlocal is_followed
            if is_followed:
                is_followed = False
                _count(self.followed, thread_id, -1, self._hear_thread)

        return stop

    def is_followed(self, thread_id: str) -> bool:
        """Whether `RUN_CHANGED` of a thread is to be heard."""
        return thread_id in self.followed or None in self.followed

    def call_listeners(self, signal: Signal) -> None:
        """Call the listeners with a signal, once each."""
        if self.watchers:
            self.report(signal.kind, "heard")
        for listener in tuple(self._listeners.values()):
            try:
                listener(signal)
            except Exception:
                # A listener that fails must not keep the signal from the others.
                logger.exception("A listener failed on signal '%s'.", signal.kind)

    def call_for_unheard(self, thread_id: str) -> None:
        """Let listeners look at a thread: what happened before it was heard is not known."""
        kind = SignalKind.RUN_CHANGED
        self.call_listeners(Signal(kind=kind, thread_id=thread_id, is_resting=True))

    def deliver_packet(self, node: str, packet: bytes) -> None:
        """Give a packet to its node."""
        for wanted, take in tuple(self._takers.values()):
            if wanted == node:
                try:
                    take(packet)
                except Exception:
                    logger.exception("Node '%s' failed on a packet.", node)

    def report(self, kind: SignalKind, result: str, count: int = 1) -> None:
        """Tell the watchers what became of signals."""
        for watcher in self.watchers:
            watcher.on_signals(kind, result, count)


class MemoryBus:
    """A `Bus` for one event loop: `tell` and `send` call back before they return."""

    def __init__(self) -> None:
        self._local = Subscriptions()
        self._is_open = False
        self.dropped = 0
        """How many packets had no node to go to, or were too large."""

    @property
    def watchers(self) -> list[BusWatcher]:
        """Who is told what becomes of signals."""
        return self._local.watchers

    @property
    def is_up(self) -> bool:
        """Whether it is open."""
        return self._is_open

    async def open(self) -> None:
        """Start to deliver signals; calling it twice is harmless."""
        self._is_open = True

    async def close(self) -> None:
        """Stop; listeners are not called until the bus is opened again."""
        self._is_open = False

    def tell(self, signal: Signal, to: str | None = None) -> None:
        """Call the listeners with a signal; before `open` and after `close`, do nothing."""
        local = self._local
        if local.watchers:
            local.report(signal.kind, "sent" if self._is_open else "dropped")
        if not self._is_open:
            return
        if to is not None:
            is_heard = to in local.nodes
        else:
            is_heard = signal.kind is not SignalKind.RUN_CHANGED or local.is_followed(
                signal.thread_id
            )
        if is_heard:
            local.call_listeners(signal)

    def send(self, to: str, payload: bytes) -> bool:
        """Give a packet to its node; False if it is not open or the packet is too large."""
        if not self._is_open or len(payload) > PACKET_MAX:
            self.dropped += 1
            return False
        self._local.deliver_packet(to, payload)
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


def _count(counts: Counter[Any], name: Any, more: int, hear: Callable[[Any, int], None]) -> None:
    """Count who needs something; tell the carrier of the first, and after the last."""
    before = counts[name]
    counts[name] = before + more
    if before == 0:
        hear(name, 1)
    elif before + more == 0:
        del counts[name]
        hear(name, -1)
