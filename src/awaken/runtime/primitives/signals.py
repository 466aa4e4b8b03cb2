"""Signals for tasks that wait: set once, rung repeatedly, a mutex, and turns of the event loop.

None of them costs anything until a task waits for it.
"""

import asyncio
from collections import deque

import msgspec

RUNS_PER_TURN = 32
"""How many runs may continue in one turn of the event loop."""


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
    is_awaited: bool = False
    _released: Latch | None = None
    """Present while a task waits."""

    async def wait(self) -> None:
        """Wait until the holder releases it; another task may be faster to take it."""
        self.is_awaited = True
        if self._released is None:
            self._released = Latch()
        await self._released.wait()

    def release(self) -> None:
        """Let another task take it; while none waits, clearing `is_held` is enough."""
        released, self._released = self._released, None
        self.is_held = self.is_awaited = False
        if released is not None:
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


class LoopTurns(msgspec.Struct, eq=False):
    """Lets runs continue in the order in which they ask, a few per turn of the event loop.

    So a timer, a socket or another task never waits for all runs that became ready at once. A
    process with few runs does not ask: it checks `runs` first, which costs nothing.
    """

    runs: int = 0
    """How many runs the process executes."""
    _queues: dict[asyncio.AbstractEventLoop, "TurnQueue"] = {}
    """By event loop; a loop in which no run asks has none."""

    async def wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until the run may continue."""
        queue = self._queues.get(loop)
        if queue is None:
            for gone in [known for known in self._queues if known.is_closed()]:
                del self._queues[gone]
            queue = self._queues[loop] = TurnQueue()
            loop.call_soon(self._begin_turn, loop, queue)
        if queue.left > 0:
            queue.left -= 1
            return
        waiter: asyncio.Future[None] = loop.create_future()
        queue.waiting.append(waiter)
        await waiter

    def _begin_turn(self, loop: asyncio.AbstractEventLoop, queue: "TurnQueue") -> None:
        queue.left, waiting = RUNS_PER_TURN, queue.waiting
        while waiting and queue.left:
            waiter = waiting.popleft()
            # A run that was cancelled meanwhile has left.
            if not waiter.done():
                waiter.set_result(None)
                queue.left -= 1
        if queue.left == RUNS_PER_TURN:
            del self._queues[loop]
        else:
            loop.call_soon(self._begin_turn, loop, queue)


class TurnQueue(msgspec.Struct, eq=False):
    """The runs of one event loop that wait for their turn."""

    left: int = RUNS_PER_TURN
    """How many more runs may continue in this turn."""
    waiting: deque[asyncio.Future[None]] = msgspec.field(default_factory=deque)
