"""The approximate length of the queue, exact enough to refuse input in time."""

from awaken.contracts.clock import Clock
from awaken.contracts.errors import QueueFull
from awaken.contracts.storage.mailbox import MailboxStore

FRESH_MS = 1000
"""How old the count may be; meanwhile other processes may queue more."""


class QueueGauge:
    """Counts the queued dispatches of all threads, at most once a second."""

    __slots__ = ("_clock", "_limit", "_read_at", "_size", "_store")

    def __init__(self, store: MailboxStore, clock: Clock, limit: int) -> None:
        self._store = store
        self._clock = clock
        self._limit = limit
        self._size = 0
        self._read_at: int | None = None

    async def reserve_place(self) -> None:
        """Count one more dispatch, if there is room.

        Raises:
            QueueFull: The queue is full; the error says when to try again.
        """
        now = self._clock.monotonic_ms()
        if self._read_at is None or now - self._read_at >= FRESH_MS:
            # Set first: callers that come while the store counts use the old count.
            self._read_at, before = now, self._size
            counted = await self._store.count_queued()
            self._size = counted + self._size - before
        if self._size >= self._limit:
            raise QueueFull(
                what="The mailbox", size=self._size, limit=self._limit, retry_after_ms=FRESH_MS
            )
        self._size += 1
