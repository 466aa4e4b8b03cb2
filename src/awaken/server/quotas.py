"""What callers may use at once and how often: permits, rates, and the memory of requests."""

from collections.abc import Hashable
from typing import TypeVar

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


class MemoryBudget:
    """A limit on the bytes that all requests of a server hold."""

    __slots__ = ("_limit", "used")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0

    def take(self, size: int) -> None:
        """Reserve bytes.

        Raises:
            HttpError: 503 with a retry time; nothing was reserved.
        """
        if self.used + size > self._limit:
            message = (
                "Requests that are under way hold all the memory that the server gives them; "
                "try again later, or send less at once."
            )
            raise HttpError(503, "memory_used_up", message, (retry_after(1000),))
        self.used += size

    def take_anyway(self, size: int) -> None:
        """Count bytes without a limit: the client must learn of what its request changed."""
        self.used += size

    def give_back(self, size: int) -> None:
        """Release bytes."""
        self.used -= size


class Holding:
    """The part of a budget that one request holds, until it is released."""

    __slots__ = ("_budget", "size")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.size = 0

    def take(self, size: int) -> None:
        """Reserve more; raises like `MemoryBudget.take`."""
        self._budget.take(size)
        self.size += size

    def take_anyway(self, size: int) -> None:
        """Count more, without a limit."""
        self._budget.take_anyway(size)
        self.size += size

    def release(self) -> None:
        """Release everything; harmless when nothing is held."""
        self._budget.give_back(self.size)
        self.size = 0
