"""Timers with almost no cost: one for a wait with a limit, one for silence.

A run waits for one thing at a time, and nearly every wait ends long before its limit. So the
timer stays in the event loop when a wait is over, and is only examined again when it fires.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType


class Alarm:
    """Calls back once, at the moment for which it was last set, unless it was cleared."""

    __slots__ = ("_callback", "_handle", "_loop", "_when")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._callback: Callable[[], None] | None = None
        self._when = 0.0

    def set(self, when: float, callback: Callable[[], None]) -> None:
        """Call back at a moment in the loop's time; replaces the previous setting."""
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
        """Remove the timer from the event loop."""
        self._callback = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self) -> None:
        # A loop may fire slightly early; the requested time is what counts.
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


class IdleTimer:
    """Raises `TimeoutError` in the block when nothing set `is_fresh` for the whole interval.

    Two ticks make an interval, so the block is given up after one to one and a half intervals.
    """

    __slots__ = (
        "_alarm", "_before", "_has_fired", "_is_paused", "_loop", "_silent_ticks", "_task",
        "_tick_s", "is_fresh",
    )  # fmt: skip

    def __init__(self, alarm: Alarm, interval_ms: int) -> None:
        self.is_fresh = False
        self._alarm = alarm
        self._tick_s = interval_ms / 2000
        self._silent_ticks = 0
        self._is_paused = False
        self._has_fired = False
        self._before = 0
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None

    def __enter__(self) -> "IdleTimer":
        self._task = asyncio.current_task()
        self._before = self._task.cancelling() if self._task is not None else 0
        self._alarm.set(self._loop.time() + self._tick_s, self._tick)
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._alarm.clear()
        if not self._has_fired or self._task is None:
            return
        # The cancellation was ours only if no other one is pending on the task.
        if self._task.uncancel() <= self._before and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def pause(self) -> None:
        """Stop counting while this side causes the silence."""
        self._is_paused = True

    def resume(self) -> None:
        """Count again."""
        self._is_paused = False
        self.is_fresh = True

    def _tick(self) -> None:
        is_silent = not (self.is_fresh or self._is_paused)
        self._silent_ticks = self._silent_ticks + 1 if is_silent else 0
        self.is_fresh = False
        if self._silent_ticks < 2:
            self._alarm.set(self._loop.time() + self._tick_s, self._tick)
        elif self._task is not None:
            self._has_fired = True
            self._task.cancel()
