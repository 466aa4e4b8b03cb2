"""A run's live events and their readers.

An attached reader slows the run down when it falls behind; a watching reader is dropped instead.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from awaken.contracts.errors import UsageError
from awaken.contracts.events import (
    LIVE_EVENTS,
    AgentEvent,
    LoggedEvent,
    ReasoningEncryptedValue,
    ToolCallStreamDelta,
    encode_event,
    unwrap_event,
)
from awaken.contracts.messages.content import ContentBlock, Text, Thinking
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta

READER_LIMIT = 4096
READER_BYTES = 1024 * 1024
"""How many unread bytes a watching reader may have before it is dropped."""

StreamItem = AgentEvent | LoggedEvent
"""A live event, or an event of the log with its place there."""


class ReaderDropped(UsageError):
    """The reader fell too far behind; attach again to read on from the log."""

    code = "reader_dropped"
    template = "The reader is more than {limit} behind and was dropped."
    limit: str


class EventReader:
    """One reader's queue. Iterate over it to get the events until the feed is closed."""

    __slots__ = (
        "_bytes", "_is_closed", "_is_dropped", "_is_idle", "_queue", "_room", "_waiter", "feed",
        "is_attached", "limit", "on_drop",
    )  # fmt: skip

    def __init__(self, *, is_attached: bool, limit: int = READER_LIMIT) -> None:
        self.is_attached = is_attached
        self.limit = limit
        self.feed: EventFeed | None = None
        """The feed that it reads, once attached."""
        self.on_drop: Callable[[], None] | None = None
        """Called when a watching reader is dropped; its consumer may be blocked in a write."""
        self._queue: deque[StreamItem] = deque()
        self._bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._is_closed = False
        self._is_dropped = False
        self._is_idle = False
        """Whether the reader is waiting for events: a burst of events does not mean it is slow."""

    @property
    def is_full(self) -> bool:
        """Whether the run should wait for the reader."""
        return len(self._queue) >= self.limit

    def push(self, event: StreamItem, size: int = 0) -> None:
        """Queue an event of the given size; a watching reader that is full is dropped.

        The run waits for an attached reader between two pieces of the model's answer. Live events
        of tools are left out when the reader is far behind: the results of the tools follow.
        """
        if self._is_closed:
            return
        behind = len(self._queue)
        if not self.is_attached:
            # Only unread events count, not the new one: one event may be larger than the limit.
            is_full = behind >= self.limit or (self._bytes > READER_BYTES and behind)
            if is_full and not self._is_idle:
                self._drop()
                return
            self._bytes += size
        elif behind >= 4 * self.limit and isinstance(event, LIVE_EVENTS):
            return
        self._queue.append(event)
        self._wake()

    def leave(self) -> None:
        """Stop reading."""
        # The callback often belongs to an object that refers to this reader.
        self.on_drop = None
        if self.feed is not None:
            self.feed.detach(self)

    def close(self) -> None:
        """Mark the end: no more events will follow."""
        self._is_closed = True
        self._wake()
        self._make_room()

    async def room(self) -> None:
        """Wait until the reader has caught up by half."""
        while len(self._queue) > self.limit // 2 and not self._is_closed:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    async def batch(self, patience_s: float) -> list[StreamItem] | None:
        """Wait for events and return all of them; empty after `patience_s`, None at the end.

        Raises:
            ReaderDropped: The reader fell too far behind.
        """
        if not self._queue and not self._is_closed:
            loop = asyncio.get_running_loop()
            self._waiter = waiter = loop.create_future()
            timer = loop.call_later(patience_s, _settle, waiter)
            self._is_idle = True
            try:
                await waiter
            finally:
                self._is_idle = False
                timer.cancel()
        if self._queue:
            found = list(self._queue)
            self._queue.clear()
            self._bytes = 0
            return found
        if self._is_dropped:
            raise ReaderDropped(limit=f"{READER_BYTES} bytes or {self.limit} events")
        return None if self._is_closed else []

    async def __aiter__(self) -> AsyncIterator[AgentEvent]:
        queue = self._queue
        while True:
            while queue:
                yield unwrap_event(queue.popleft())
                if self._room is not None and len(queue) <= self.limit // 2:
                    self._make_room()
            self._bytes = 0
            if self._is_dropped:
                raise ReaderDropped(limit=f"{READER_BYTES} bytes or {self.limit} events")
            if self._is_closed:
                return
            self._waiter = asyncio.get_running_loop().create_future()
            self._is_idle = True
            await self._waiter
            self._is_idle = False

    def _drop(self) -> None:
        self._is_dropped = True
        self._queue.clear()
        self.close()
        if self.on_drop is not None:
            self.on_drop()

    def _wake(self) -> None:
        if self._waiter is not None:
            _settle(self._waiter)

    def _make_room(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            _settle(room)


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _size(item: StreamItem) -> int:
    """Estimate the size of an event; the frequent small ones are not encoded for it."""
    event = item.event if type(item) is LoggedEvent else item
    if isinstance(event, TextDelta | ReasoningDelta | ToolCallStreamDelta):
        return 64 + len(event.delta)
    if isinstance(event, ToolCallDelta):
        return 64 + len(event.args_delta)
    return len(encode_event(event))


class EventFeed:
    """Fans a run's events out to its readers; without readers it costs nothing."""

    __slots__ = ("is_closed", "is_full", "readers")

    def __init__(self) -> None:
        self.readers: tuple[EventReader, ...] = ()
        self.is_full = False
        self.is_closed = False

    def attach(self, reader: EventReader) -> EventReader:
        """Add a reader; it gets every event from now on. On a closed feed it ends at once."""
        self.readers = (*self.readers, reader)
        reader.feed = self
        if self.is_closed:
            reader.close()
        return reader

    def detach(self, reader: EventReader) -> None:
        """Remove a reader."""
        self.readers = tuple(known for known in self.readers if known is not reader)
        reader.feed = None
        reader.close()
        self.is_full = any(known.is_attached and known.is_full for known in self.readers)

    def emit(self, event: StreamItem) -> None:
        """Queue an event for every reader."""
        size = 0
        for reader in self.readers:
            if not reader.is_attached:
                size = size or _size(event)
            reader.push(event, size)
            if reader.is_attached and reader.is_full:
                self.is_full = True

    async def drain(self) -> None:
        """Wait for the attached readers that are behind."""
        for reader in self.readers:
            if reader.is_attached and reader.is_full:
                await reader.room()
        self.is_full = False

    def close(self) -> None:
        """End the feed for every reader."""
        self.is_closed = True
        for reader in self.readers:
            reader.close()


def block_events(content: tuple[ContentBlock, ...]) -> list[AgentEvent]:
    """Return a turn's content as one delta per block."""
    events: list[AgentEvent] = []
    for block in content:
        if type(block) is Text:
            events.append(TextDelta(delta=block.text))
        elif type(block) is Thinking:
            if block.thinking:
                events.append(ReasoningDelta(delta=block.thinking))
            if block.signature is not None:
                events.append(ReasoningEncryptedValue(encrypted_value=block.signature))
    return events
