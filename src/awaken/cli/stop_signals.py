"""SIGTERM and SIGINT: the first asks to stop, the second does not wait."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """An event that the first signal sets; the second ends the process at once."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    is_stopping = False

    def hear(number: int, _frame: FrameType | None) -> None:
        nonlocal is_stopping
        if is_stopping:
            # Not an exception: whoever is asked twice must not wait for anybody's cleaning up.
            os._exit(128 + number)
        is_stopping = True
        loop.call_soon_threadsafe(stop.set)

    # Not the loop's own handlers: those wait while a tool blocks the loop.
    before = {number: signal.signal(number, hear) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
