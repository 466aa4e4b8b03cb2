"""The bus inside one process."""

import logging
from collections import Counter
from collections.abc import Callable

from awaken.contracts.storage.bus import PACKET_MAX, Signal, SignalKind, Unsubscribe

logger = logging.getLogger(__name__)


class MemoryBus:
    """A `Bus` for one event loop: `tell` and `send` call back before they return."""

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[[Signal], None]] = {}
        self._takers: dict[object, tuple[str, Callable[[bytes], None]]] = {}
        self._followed: Counter[str | None] = Counter()
        self._is_open = False
        self.dropped = 0
        """How many packets had no node to go to, or were too large."""

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
        if not self._is_open:
            return
        if to is not None:
            if all(node != to for node, _ in self._takers.values()):
                return
        elif signal.kind is SignalKind.RUN_CHANGED and not (
            None in self._followed or signal.thread_id in self._followed
        ):
            return
        for listener in tuple(self._listeners.values()):
            try:
                listener(signal)
            except Exception:
                # A listener that fails must not keep the signal from the others.
                logger.exception("A listener failed on signal '%s'.", signal.kind)

    def send(self, to: str, payload: bytes) -> bool:
        """Give a packet to its node; False if it is not open or the packet is too large."""
        if not self._is_open or len(payload) > PACKET_MAX:
            self.dropped += 1
            return False
        for node, take in tuple(self._takers.values()):
            if node == to:
                try:
                    take(payload)
                except Exception:
                    logger.exception("Node '%s' failed on a packet.", node)
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
        key = object()
        self._takers[key] = (node, take)

        def stop() -> None:
            self._takers.pop(key, None)

        return stop

    def follow(self, thread_id: str | None) -> Unsubscribe:
        """Hear `RUN_CHANGED` of a thread, or of all, until the returned function is called."""
        self._followed[thread_id] += 1
        is_followed = True

        def stop() -> None:
            nonlocal is_followed
            if is_followed:
                is_followed = False
                self._followed[thread_id] -= 1
                if not self._followed[thread_id]:
                    del self._followed[thread_id]

        return stop
