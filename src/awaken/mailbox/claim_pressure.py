"""Back-pressure of a node: a worker claims less while its process or its database is too slow."""

import asyncio
import math
from collections import deque
from collections.abc import Callable

from awaken.contracts.clock import Clock

WINDOW_MS = 5_000
"""Over how long delays are judged."""
SAMPLE_MS = 250
LAG_MS = 200
"""An event loop that is later than this leaves half of the slots empty."""
POOL_WAIT_MS = 250
"""Nothing is claimed while work waits longer than this for a connection."""
SAMPLES_MIN = 5
"""Fewer delays than this are not judged: a start or a single pause is no pressure."""
_SHARE = 0.95


class ClaimPressure:
    """How late the event loop is, and how long work waits for a connection; a `StoreWatcher`.

    Both are judged by the 95th percentile of the last `WINDOW_MS`. Without work there are no waits,
    so a pool that has recovered is used again after that time at the latest: `on_relief` is called
    when either is in order again.
    """

    def __init__(self, clock: Clock, on_relief: Callable[[], None]) -> None:
        self._clock = clock
        self._on_relief = on_relief
        self._lags = _Delays(LAG_MS)
        self._waits = _Delays(POOL_WAIT_MS)
        self._is_slow = False
        self.is_pool_exhausted = False
        """Whether further work would only wait for a connection."""

    def limit_slots(self, slots: int) -> int:
        """Return how many of the slots may be used now. The thread of the heartbeat asks too."""
        return max(slots // 2, 1) if self._is_slow else slots

    async def watch(self) -> None:
        """Measure how late this task wakes up, and judge, until it is cancelled."""
        while True:
            began = self._clock.monotonic_ms()
            await asyncio.sleep(SAMPLE_MS / 1000)
            now = self._clock.monotonic_ms()
            self._lags.add(now, now - began - SAMPLE_MS)
            was_slow, was_exhausted = self._is_slow, self.is_pool_exhausted
            self._is_slow = self._lags.are_long(now)
            self.is_pool_exhausted = self._waits.are_long(now)
            if was_slow > self._is_slow or was_exhausted > self.is_pool_exhausted:
                self._on_relief()

    def on_statement(self, op: str) -> None:
        """Ignore it: how often the database is asked is no pressure."""

    def on_pool_wait(self, ms: float) -> None:
        """Note how long work waited for a connection."""
        self._waits.add(self._clock.monotonic_ms(), ms)


class _Delays:
    """The delays of the last `WINDOW_MS`, and whether they are too long."""

    def __init__(self, limit_ms: float) -> None:
        self._limit_ms = limit_ms
        self._found: deque[tuple[int, bool]] = deque()
        self._long = 0

    def add(self, now: int, ms: float) -> None:
        is_long = ms > self._limit_ms
        self._found.append((now, is_long))
        self._long += is_long
        self._forget_old(now)

    def are_long(self, now: int) -> bool:
        """Whether the 95th percentile is above the limit."""
        self._forget_old(now)
        count = len(self._found)
        return count >= SAMPLES_MIN and self._long > count - math.ceil(count * _SHARE)

    def _forget_old(self, now: int) -> None:
        while self._found and now - self._found[0][0] >= WINDOW_MS:
            self._long -= self._found.popleft()[1]
