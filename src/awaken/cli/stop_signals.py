"""SIGTERM and SIGINT: the first signal asks to stop, the second exits at once."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def catch_stop_signals() -> Iterator[asyncio.Event]:
    """Provide an event that the first signal sets; the second one exits at once."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    is_stopping = False

    def on_signal(number: int, _frame: FrameType | None) -> None:
        nonlocal is_stopping
        if is_stopping:
            # Not an exception: the second signal must not wait for any cleanup.
            os._exit(128 + number)
        is_stopping = True
        loop.call_soon_threadsafe(stop.set)

    # Not the loop's own handlers: they do not run while a tool blocks the loop.
    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
