"""What all requests together hold in memory: bodies until they are handled, replies until sent."""

from awaken.transport.problems import HttpError

from .rates import retry_after


class MemoryBudget:
    """So many bytes for all requests of a server."""

    __slots__ = ("_limit", "used")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0

    def take(self, size: int) -> None:
        """Take bytes that are about to be held.

        Raises:
            Problem: 503 and when to come again; nothing was taken.
        """
        if self.used + size > self._limit:
            message = (
                "Requests that are under way hold all the memory that the server gives them; "
                "try again later, or send less at once."
            )
            raise HttpError(503, "memory_used_up", message, (retry_after(1000),))
        self.used += size

    def take_anyway(self, size: int) -> None:
        """Take bytes that are held already: what was done must be told."""
        self.used += size

    def give_back(self, size: int) -> None:
        """Give bytes back that were taken."""
        self.used -= size


class Holding:
    """What one request holds of a budget, until it is released."""

    __slots__ = ("_budget", "size")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.size = 0

    def take(self, size: int) -> None:
        """Hold more; raises like `MemoryBudget.take`."""
        self._budget.take(size)
        self.size += size

    def take_anyway(self, size: int) -> None:
        """Hold more, whatever there is left."""
        self._budget.take_anyway(size)
        self.size += size

    def release(self) -> None:
        """Give everything back; harmless when there is nothing."""
        self._budget.give_back(self.size)
        self.size = 0
