"""Limits of waiting with almost no cost: one timer of the event loop for all runs.

Nearly every wait ends long before its limit. So a limit is an entry in a table, and ending the
wait removes the entry. The one timer stays in the event loop; it looks at the table when it fires.
"""

import asyncio
import math
import threading
from collections.abc import Callable
from operator import itemgetter
from types import TracebackType
from typing import Any, Protocol
from weakref import WeakValueDictionary

import msgspec

_SPACING_S = 50e-6
"""The least time between two looks, for each entry: looking takes a thousandth of the time."""


class Watched(Protocol):
    """The owner of a moment: what is called when its moment has come.

    It is not a callback, because an owner exists anyway and a bound method is one object more.
    """

    def on_moment(self) -> None:
        """Act; the moment is cleared, and can be set again."""
        ...


class Watchdog:
    """Calls its owners at the moments that were set and not cleared, at most one for each.

    It serves one event loop. While many moments are set, a call may come late, by 50 microseconds
    for each of them.
    """

    __slots__ = ("__weakref__", "_moments", "_timer", "_wakes_at", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._moments: dict[Watched, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at = math.inf

    def set(self, owner: Watched, moment: float) -> None:
        """Call the owner at a moment in the loop's time; replaces its earlier moment."""
        self._moments[owner] = moment
        if moment < self._wakes_at:
            self._arm(moment)

    def clear(self, owner: Watched) -> None:
        """Do not call the owner."""
        if owner in self._moments:
            del self._moments[owner]

    def _arm(self, moment: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at = moment
        self._timer = self.loop.call_at(moment, self._look)

    def _look(self) -> None:
        # A loop may fire slightly early; the requested time is what counts.
        now = max(self.loop.time(), self._wakes_at)
        self._timer, self._wakes_at = None, math.inf
        due = [(moment, owner) for owner, moment in self._moments.items() if moment <= now]
        spacing = len(self._moments) * _SPACING_S
        for _, owner in due:
            del self._moments[owner]
        if self._moments:
            self._arm(max(min(self._moments.values()), now + spacing))
        for _, owner in sorted(due, key=itemgetter(0)):
            owner.on_moment()


class DeadlineWatch(msgspec.Struct, eq=False):
    """Tells the sweeper of deadlines that runs of this process have written.

    So a deadline is met promptly, and a process without deadlines looks for none.
    """

    earliest: int | None = None
    """The earliest deadline that was told, in milliseconds since the epoch."""
    watchers: list[Callable[[int], object]] = []

    def watch(self, due_ms: int) -> None:
        """Tell of a deadline; it is durable, or becomes so with the next commit."""
        if self.earliest is None or due_ms < self.earliest:
            self.earliest = due_ms
        for watcher in tuple(self.watchers):
            watcher(due_ms)


class Watchdogs:
    """The watchdogs of a runtime: one for each event loop that uses it."""

    __slots__ = ("_by_loop", "_lock", "latest")

    def __init__(self) -> None:
        self.latest: Watchdog | None = None
        """The one that was asked for last; nearly always the only one."""
        self._by_loop: WeakValueDictionary[int, Watchdog] = WeakValueDictionary()
        self._lock = threading.Lock()

    def find(self, loop: asyncio.AbstractEventLoop) -> Watchdog:
        """Return the watchdog of an event loop; loops of several threads may ask at once."""
        with self._lock:
            known = self._by_loop.get(id(loop))
            if known is None or known.loop is not loop:
                # A loop that is gone may have had the same id.
                known = self._by_loop[id(loop)] = Watchdog(loop)
            self.latest = known
        return known


class IdleTimer(msgspec.Struct, eq=False):
    """Raises `TimeoutError` in the block when nothing set `is_fresh` for the whole interval.

    Two ticks make an interval, so the block is given up after one to one and a half intervals.
    """

    watchdog: Watchdog
    interval_ms: int
    is_fresh: bool = False
    _silent_ticks: int = 0
    _is_paused: bool = False
    _has_fired: bool = False
    _before: int = 0
    _task: asyncio.Task[Any] | None = None

    def __enter__(self) -> "IdleTimer":
        loop = self.watchdog.loop
        self._task = asyncio.current_task(loop)
        self._before = self._task.cancelling() if self._task is not None else 0
        self.watchdog.set(self, loop.time() + self.interval_ms / 2000)
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.watchdog.clear(self)
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

    def on_moment(self) -> None:
        """Count a silent half of the interval; the second in a row ends the block."""
        is_silent = not (self.is_fresh or self._is_paused)
        self._silent_ticks = self._silent_ticks + 1 if is_silent else 0
        self.is_fresh = False
        if self._silent_ticks < 2:
            moment = self.watchdog.loop.time() + self.interval_ms / 2000
            self.watchdog.set(self, moment)
        elif self._task is not None:
            self._has_fired = True
            self._task.cancel()
