"""The bus inside one process."""

import logging
from collections.abc import Callable

from awaken.contracts.storage.bus import Signal, Unsubscribe

logger = logging.getLogger(__name__)


class MemoryBus:
    """A `Bus` for one event loop: `tell` calls every listener before it returns."""

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[[Signal], None]] = {}
        self._is_open = False

    async def open(self) -> None:
        """Start to deliver signals; calling it twice is harmless."""
        self._is_open = True

    async def close(self) -> None:
        """Stop; listeners are not called until the bus is opened again."""
        self._is_open = False

    def tell(self, signal: Signal) -> None:
        """Call every listener with a signal; before `open` and after `close`, do nothing."""
        if not self._is_open:
            return
        for listener in tuple(self._listeners.values()):
            try:
                listener(signal)
            except Exception:
                # A listener that fails must not keep the signal from the others.
                logger.exception("A listener failed on signal '%s'.", signal.kind)

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        """Call the listener with every signal; returns a function that stops it, callable twice."""
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe
