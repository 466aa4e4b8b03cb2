"""A timer that can be set again and again for next to nothing.

A run waits for one thing at a time, and nearly every wait ends long before its limit. So the
timer stays in the event loop when a wait is over, and is only looked at again when it rings.
"""

import asyncio
from collections.abc import Callable


class Alarm:
    """Calls back once when the moment it was last set for has come, unless it was cleared."""

    __slots__ = ("_callback", "_handle", "_loop", "_when")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._callback: Callable[[], None] | None = None
        self._when = 0.0

    def set(self, when: float, callback: Callable[[], None]) -> None:
        """Call back at a moment of the loop's time; replaces what was set before."""
        self._when = when
        self._callback = callback
        if self._handle is None:
            self._handle = self._loop.call_at(when, self._ring)
        elif self._handle.when() > when:
            self._handle.cancel()
            self._handle = self._loop.call_at(when, self._ring)

    def clear(self) -> None:
        """Do not call back."""
        self._callback = None

    def close(self) -> None:
        """Leave the event loop."""
        self._callback = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self) -> None:
        # A loop may ring a hair early; what it was asked for is what counts.
        rung = self._handle.when() if self._handle is not None else self._when
        self._handle = None
        callback = self._callback
        if callback is None:
            return
        if rung < self._when:
            self._handle = self._loop.call_at(self._when, self._ring)
            return
        self._callback = None
        callback()
