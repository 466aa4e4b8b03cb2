"""What callers may use at once and how often: permits, rates, and the memory of requests."""

import asyncio
from collections.abc import Hashable
from typing import Any, TypeVar

from awaken.contracts.clock import Clock
from awaken.transport.problems import HttpError

from .config import RateLimit

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_CALLERS_MAX = 10_000


class Rates:
    """A rate limit per key. Memory is bounded: the key that was idle longest is evicted first."""

    __slots__ = ("_clock", "_due", "_gap_ms", "_slack_ms")

    def __init__(self, limit: RateLimit, clock: Clock) -> None:
        self._clock = clock
        self._gap_ms = 1000 / limit.per_s
        self._slack_ms = self._gap_ms * (limit.burst - 1)
        # When each key's count would be zero again if it sent nothing more.
        self._due: dict[Hashable, float] = {}

    def check(self, key: Hashable, message: str) -> None:
        """Refuse a key that exceeds its rate.

        Raises:
            HttpError: 429 with a retry time.
        """
        wait_ms = self._due.get(key, 0) - self._slack_ms - self._clock.monotonic_ms()
        if wait_ms > 0:
            raise HttpError(429, "too_many_requests", message, (retry_after(wait_ms),))

    def count(self, key: Hashable) -> None:
        """Count one request of a key."""
        now = self._clock.monotonic_ms()
        due = max(self._due.get(key, 0), now) + self._gap_ms
        remember(self._due, key, due, _CALLERS_MAX)


class Permits:
    """Limits how many requests run at once, in total and per caller."""

    __slots__ = ("_by_caller", "_each", "_limit", "_what", "in_use")

    def __init__(self, what: str, limit: int, each: int) -> None:
        self._what = what
        self._limit = limit
        self._each = each
        self._by_caller: dict[Hashable, int] = {}
        self.in_use = 0

    def take(self, caller: Hashable | None) -> None:
        """Take a permit; the caller None is only held to the total limit.

        Raises:
            HttpError: 503 when the server is full, 429 when the caller has too many.
        """
        if self.in_use >= self._limit:
            message = f"The server has too many {self._what}."
            raise HttpError(503, "overloaded", message, (retry_after(1000),))
        if caller is not None:
            held = self._by_caller.get(caller, 0)
            if held >= self._each:
                message = f"You have {held} {self._what} already."
                raise HttpError(429, "too_many_requests", message, (retry_after(1000),))
            self._by_caller[caller] = held + 1
        self.in_use += 1

    def give_back(self, caller: Hashable | None) -> None:
        """Return a permit."""
        self.in_use -= 1
        if caller is None:
            return
        self._by_caller[caller] -= 1
        if not self._by_caller[caller]:
            del self._by_caller[caller]


def remember(memory: dict[K, V], key: K, value: V, limit: int) -> None:
    """Store a value as the newest; evict the oldest when there are too many."""
    memory.pop(key, None)
    memory[key] = value
    if len(memory) > limit:
        del memory[next(iter(memory))]


def retry_after(wait_ms: float) -> tuple[bytes, bytes]:
    """The Retry-After header, in whole seconds."""
    return (b"retry-after", str(max(1, -(-int(wait_ms) // 1000))).encode())


class Deadlines:
    """Cancels tasks that take too long; one timer serves all of them.

    A task is cancelled after the limit and at most an eighth of it more.
    """

    __slots__ = ("_due", "_limit_s", "_missed", "_timer")

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._due: dict[asyncio.Task[Any], float] = {}
        self._missed: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.AbstractEventLoop | None = None
        """The loop in which the timer runs, if it runs."""

    def start(self) -> "asyncio.Task[Any]":
        """Give the current task its time, until `end`."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._due[task] = loop.time() + self._limit_s
        if self._timer is not loop:
            self._timer = loop
            loop.call_later(self._limit_s / 8, self._cancel_late, loop)
        return task

    def has_missed(self, task: "asyncio.Task[Any]") -> bool:
        """Whether the task was cancelled because its time is over."""
        return task in self._missed

    def end(self, task: "asyncio.Task[Any]") -> None:
        """The task needs its time no more."""
        self._due.pop(task, None)
        if self._missed:
            self._missed.discard(task)

    def _cancel_late(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for task in [task for task, due in self._due.items() if due <= now]:
            del self._due[task]
            self._missed.add(task)
            task.cancel()
        if not self._due:
            self._timer = None
        elif self._timer is loop:
            loop.call_later(self._limit_s / 8, self._cancel_late, loop)


class MemoryBudget:
    """A limit on the bytes that all requests of a server hold."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0


class Holding:
    """The part of a budget that one request holds, until it is released."""

    __slots__ = ("_budget", "size")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.size = 0

    def take(self, size: int) -> None:
        """Reserve more bytes.

        Raises:
            HttpError: 503 with a retry time; nothing was reserved.
        """
        if self._budget.used + size > self._budget.limit:
            message = (
                "Requests that are under way hold all the memory that the server gives them; "
                "try again later, or send less at once."
            )
            raise HttpError(503, "memory_used_up", message, (retry_after(1000),))
        self._budget.used += size
        self.size += size

    def take_anyway(self, size: int) -> None:
        """Count more without a limit: the client must learn of what its request changed."""
        self._budget.used += size
        self.size += size

    def release(self) -> None:
        """Release everything; harmless when nothing is held."""
        self._budget.used -= self.size
        self.size = 0
