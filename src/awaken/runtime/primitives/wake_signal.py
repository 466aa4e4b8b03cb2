"""Wakes a run that waits in process. It costs nothing until the run waits."""

import asyncio


class WakeSignal:
    """Rung as often as one likes; all who wait wake at once, or one finds that it was rung."""

    __slots__ = ("_heard", "_rings", "_waiters")

    def __init__(self) -> None:
        self._rings = 0
        self._heard = 0
        self._waiters: set[asyncio.Future[int]] = set()

    def ring(self) -> None:
        """Wake all who wait, now or when somebody next does."""
        self._rings += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(self._rings)

    async def wait(self, patience_s: float) -> bool:
        """Wait until it is rung, but no longer than this; returns whether it was."""
        heard = self._rings
        if heard == self._heard:
            heard = await self._next(patience_s)
        # One that was cancelled has heard nothing, and one that is slow nothing of a later ring.
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
