"""Sharing the event loop: of many runs that are ready at once, a few continue in each turn."""

import asyncio
from collections import deque

import msgspec

RUNS_PER_TURN = 32
"""How many runs may continue in one turn of the event loop."""


class LoopTurns(msgspec.Struct, eq=False):
    """Lets runs continue in the order in which they ask, a few per turn of the event loop.

    So a timer, a socket or another task never waits for all runs that became ready at once. A
    process with few runs does not ask: it checks `runs` first, which costs nothing.
    """

    runs: int = 0
    """How many runs the process executes."""
    _left: int = 0
    """How many more runs may continue in this turn."""
    _loop: asyncio.AbstractEventLoop | None = None
    """The loop whose next turn is awaited; None while no run waits."""
    _waiting: deque[asyncio.Future[None]] = msgspec.field(default_factory=deque)

    async def wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until the run may continue."""
        if self._loop is not loop:
            # Nothing waits, or what waited belonged to a loop that is gone.
            self._loop, self._left = loop, RUNS_PER_TURN
            self._waiting.clear()
            loop.call_soon(self._begin_turn, loop)
        if self._left > 0:
            self._left -= 1
            return
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.append(waiter)
        await waiter

    def _begin_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not loop:
            return
        left, waiting = RUNS_PER_TURN, self._waiting
        while waiting and left:
            waiter = waiting.popleft()
            # A run that was cancelled meanwhile has left.
            if not waiter.done():
                waiter.set_result(None)
                left -= 1
        self._left = left
        if left == RUNS_PER_TURN:
            self._loop = None
        else:
            loop.call_soon(self._begin_turn, loop)
