"""A run's live events and those who read them.

A reader that is attached slows the run down when it falls behind; a reader that only watches is
dropped instead.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from awaken.contracts.errors import UsageError
from awaken.contracts.events import LIVE_EVENTS, AgentEvent

READER_LIMIT = 4096


class ReaderDropped(UsageError):
    """The reader fell too far behind; attach again to read on from the log."""

    code = "reader_dropped"
    template = "The reader is more than {limit} events behind and was dropped."
    limit: int


class EventReader:
    """One reader's queue. Iterate over it to get the events until the feed is closed."""

    __slots__ = ("_is_closed", "_is_dropped", "_queue", "_room", "_waiter", "is_attached", "limit")

    def __init__(self, *, is_attached: bool, limit: int = READER_LIMIT) -> None:
        self.is_attached = is_attached
        self.limit = limit
        self._queue: deque[AgentEvent] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._is_closed = False
        self._is_dropped = False

    @property
    def is_full(self) -> bool:
        """Whether the reader should be waited for."""
        return len(self._queue) >= self.limit

    def push(self, event: AgentEvent) -> None:
        """Take an event; a watching reader that is full is dropped.

        The run waits for an attached reader between two pieces of the model's answer. What tools
        show meanwhile is left out when the reader is far behind: their results will come.
        """
        if self._is_closed:
            return
        behind = len(self._queue)
        if behind >= self.limit and not self.is_attached:
            self._is_dropped = True
            self._queue.clear()
            self.close()
            return
        if behind >= 4 * self.limit and isinstance(event, LIVE_EVENTS):
            return
        self._queue.append(event)
        self._wake()

    def close(self) -> None:
        """No more events will come."""
        self._is_closed = True
        self._wake()
        self._make_room()

    async def room(self) -> None:
        """Wait until the reader has caught up by half."""
        while len(self._queue) > self.limit // 2 and not self._is_closed:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    async def __aiter__(self) -> AsyncIterator[AgentEvent]:
        queue = self._queue
        while True:
            while queue:
                yield queue.popleft()
                if self._room is not None and len(queue) <= self.limit // 2:
                    self._make_room()
            if self._is_dropped:
                raise ReaderDropped(limit=self.limit)
            if self._is_closed:
                return
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _make_room(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)


class EventFeed:
    """Fans a run's events out to its readers; without readers it costs nothing."""

    __slots__ = ("is_full", "readers")

    def __init__(self) -> None:
        self.readers: tuple[EventReader, ...] = ()
        self.is_full = False

    def attach(self, reader: EventReader) -> EventReader:
        """Add a reader; it gets every event from now on."""
        self.readers = (*self.readers, reader)
        return reader

    def detach(self, reader: EventReader) -> None:
        """Remove a reader."""
        self.readers = tuple(known for known in self.readers if known is not reader)
        reader.close()
        self.is_full = any(known.is_attached and known.is_full for known in self.readers)

    def emit(self, event: AgentEvent) -> None:
        """Give an event to every reader."""
        for reader in self.readers:
            reader.push(event)
            if reader.is_attached and reader.is_full:
                self.is_full = True

    async def drain(self) -> None:
        """Wait for the attached readers that are behind."""
        for reader in self.readers:
            if reader.is_attached and reader.is_full:
                await reader.room()
        self.is_full = False

    def close(self) -> None:
        """Tell every reader that nothing more will come."""
        for reader in self.readers:
            reader.close()
