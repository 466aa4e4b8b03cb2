"""A timer for silence: it costs nothing per event, only a tick now and then."""

import asyncio
from types import TracebackType


class IdleTimer:
    """Raises `TimeoutError` in the block when nothing set `is_fresh` for the whole interval.

    Two ticks make an interval, so the block is given up after one to one and a half intervals.
    """

    __slots__ = ("_handle", "_is_paused", "_loop", "_silent_ticks", "_task", "_tick_s", "is_fresh")

    def __init__(self, interval_ms: int) -> None:
        self.is_fresh = False
        self._tick_s = interval_ms / 2000
        self._silent_ticks = 0
        self._is_paused = False
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._handle: asyncio.TimerHandle | None = None

    def __enter__(self) -> "IdleTimer":
        self._task = asyncio.current_task()
        self._handle = self._loop.call_later(self._tick_s, self._tick)
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        has_fired = self._handle is None
        if self._handle is not None:
            self._handle.cancel()
        # The cancellation was ours only if nobody else asked for one as well.
        is_ours = has_fired and self._task is not None and self._task.uncancel() == 0
        if is_ours and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def pause(self) -> None:
        """Stop counting while the silence is our own doing."""
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
            self._handle = self._loop.call_later(self._tick_s, self._tick)
            return
        self._handle = None
        if self._task is not None:
            self._task.cancel()
