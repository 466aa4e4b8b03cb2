"""The bus inside one process."""

import logging
from collections.abc import Callable

from awaken.contracts.storage.bus import Signal, Unsubscribe

logger = logging.getLogger(__name__)


class MemoryBus:
    """A `Bus` for one event loop: every listener has heard a signal before `publish` returns."""

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[[Signal], None]] = {}
        self._is_open = False

    async def open(self) -> None:
        """Begin to carry signals; calling it twice is harmless."""
        self._is_open = True

    async def close(self) -> None:
        """Stop; those who listen hear nothing until it is opened again."""
        self._is_open = False

    async def publish(self, signal: Signal) -> None:
        """Send a signal to everybody who listens now; before `open` and after `close` to nobody."""
        if not self._is_open:
            return
        for listener in tuple(self._listeners.values()):
            try:
                listener(signal)
            except Exception:
                # One bad listener must not keep the others from hearing.
                logger.exception("A listener failed on signal '%s'.", signal.kind)

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        """Call back with every signal; returns the way to stop that, which may be used twice."""
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe
