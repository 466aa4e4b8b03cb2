"""The memory that all requests hold together: bodies until handled, replies until sent."""

from awaken.transport.problems import HttpError

from .rates import retry_after


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
