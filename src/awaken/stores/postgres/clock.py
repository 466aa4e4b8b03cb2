"""The clock of the server, as a process knows it without asking each time."""

import asyncio
from collections.abc import Callable

FRESH_S = 5.0
"""How long a reading is continued: a server whose clock was set is followed after that."""


def _read_loop() -> float:
    return asyncio.get_running_loop().time()


class ServerClock:
    """Continues the latest reading of the server's clock.

    Never ahead of the server: a reading is as old as its reply at least. So a lease that is
    measured with it ends too early, by the time of a reply, and never too late.
    """

    def __init__(self, monotonic: Callable[[], float] = _read_loop) -> None:
        self._monotonic = monotonic
        self._now_ms = 0
        self._read_at: float | None = None

    def set(self, now_ms: int) -> None:
        """Take a reading that the server has just sent."""
        self._now_ms, self._read_at = now_ms, self._monotonic()

    def forget(self) -> None:
        """Forget the reading: the next server may be another one."""
        self._read_at = None

    def tell_ms(self) -> int | None:
        """Return the time of the server, or None if it must be asked."""
        if self._read_at is None:
            return None
        passed = self._monotonic() - self._read_at
        return None if passed > FRESH_S else self._now_ms + int(passed * 1000)
