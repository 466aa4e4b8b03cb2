"""Signals for tasks that wait: one that is set once, one that can be rung repeatedly, and a mutex.

None of them costs anything until a task waits for it.
"""

import asyncio

import msgspec


class Latch(msgspec.Struct, eq=False):
    """Set once, for all tasks that wait now or later."""

    _is_set: bool = False
    _waiters: list[asyncio.Future[None]] | None = None

    def is_set(self) -> bool:
        """Whether the latch is set."""
        return self._is_set

    def set(self) -> None:
        """Set the latch and wake all waiting tasks."""
        self._is_set = True
        waiters, self._waiters = self._waiters or (), None
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until the latch is set."""
        if self._is_set:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(waiter)
        await waiter


class Mutex(msgspec.Struct, eq=False):
    """Held by one task at a time: wait while `is_held`, set it, and `release` it at the end."""

    is_held: bool = False
    _released: Latch | None = None
    """Present while a task waits."""

    async def wait(self) -> None:
        """Wait until the holder releases it; another task may be faster to take it."""
        if self._released is None:
            self._released = Latch()
        await self._released.wait()

    def release(self) -> None:
        """Let another task take it."""
        self.is_held = False
        if self._released is not None:
            released, self._released = self._released, None
            released.set()


class WakeSignal:
    """Can be rung repeatedly: a ring wakes all waiting tasks, or else the next one that waits."""

    __slots__ = ("_heard", "_rings", "_waiters")

    def __init__(self) -> None:
        self._rings = 0
        self._heard = 0
        self._waiters: set[asyncio.Future[int]] = set()

    def ring(self) -> None:
        """Wake all waiting tasks; if none waits, the next wait returns at once."""
        self._rings += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(self._rings)

    async def wait(self, patience_s: float) -> bool:
        """Wait until the signal is rung, at most `patience_s`; returns whether it was rung."""
        heard = self._rings
        if heard == self._heard:
            heard = await self._next(patience_s)
        # A cancelled waiter has consumed no ring, and a slow one must not consume a later ring.
        self._heard = max(self._heard, heard)
        return heard > 0

    async def _next(self, patience_s: float) -> int:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[int] = loop.create_future()
        timer = loop.call_later(patience_s, _give_up, waiter)
        self._waiters.add(waiter)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiters.discard(waiter)


def _give_up(waiter: "asyncio.Future[int]") -> None:
    if not waiter.done():
        waiter.set_result(0)
