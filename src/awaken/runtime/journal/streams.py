"""A run's live events and their readers.

An attached reader slows the run down when it falls behind; a watching reader is dropped instead.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable
from itertools import islice
from typing import Any

import msgspec

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
        "_bytes", "_counted", "_is_closed", "_is_dropped", "_is_idle", "_is_nudged",
        "_queue", "_room", "_waiter", "feed", "is_attached", "limit", "on_drop", "position",
        "pushed",
    )  # fmt: skip

    def __init__(self, *, is_attached: bool, limit: int = READER_LIMIT) -> None:
        self.is_attached = is_attached
        self.limit = limit
        self.feed: EventFeed | None = None
        """The feed that it reads, once attached."""
        self.on_drop: Callable[[], None] | None = None
        """Called when a watching reader is dropped; its consumer may be blocked in a write."""
        self.position = 0
        """How many events the feed had emitted up to the end of the latest batch."""
        self.pushed = 0
        """How many events the feed had emitted up to the latest that this reader was given."""
        self._queue: list[StreamItem] | deque[StreamItem] = []
        self._bytes = self._counted = 0
        """The size of the unread events, and how many of them it includes."""
        self._waiter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._is_closed = False
        self._is_dropped = False
        self._is_nudged = False
        self._is_idle = False
        """Whether the reader is waiting for events: a burst of events does not mean it is slow."""

    @property
    def is_full(self) -> bool:
        """Whether the run should wait for the reader."""
        return len(self._queue) >= self.limit

    @property
    def is_ready(self) -> bool:
        """Whether `take` has events, or the end."""
        return bool(self._queue) or self._is_closed

    def push(self, event: StreamItem) -> None:
        """Queue an event; a watching reader that is too far behind is dropped.

        The run waits for an attached reader between two pieces of the model's answer. Live events
        of tools are left out when the reader is far behind: the results of the tools follow.
        """
        if self._is_closed:
            return
        if self._is_idle:
            if self._waiter is not None:
                self._wake()
        elif self._queue and not self.is_attached:
            # Measured only here: a reader that keeps up has nothing unread when the next comes.
            # The new event does not count, since one event may be larger than the limit.
            for item in islice(self._queue, self._counted, None):
                self._bytes += _size(item)
            self._counted = len(self._queue)
            if self._counted >= self.limit or self._bytes > READER_BYTES:
                self._drop()
                return
        elif len(self._queue) >= 4 * self.limit and isinstance(event, LIVE_EVENTS):
            return
        self._queue.append(event)
        self.pushed += 1

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

    def nudge(self) -> None:
        """End a wait that has lasted since the previous nudge: `take` then returns no events."""
        if self._is_nudged:
            self._wake()
        self._is_nudged = self._is_idle

    async def room(self) -> None:
        """Wait until the reader has caught up by half."""
        while len(self._queue) > self.limit // 2 and not self._is_closed:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    def wait(self) -> "asyncio.Future[None]":
        """A future to await when `take` had no events, before `take` is called again.

        No coroutine: a stream may wait for hours, and each frame on its way takes memory.
        """
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        self._is_idle, self._is_nudged = True, False
        return waiter

    def take(self) -> list[StreamItem] | None:
        """Return all unread events; empty if there are none, None at the end.

        Raises:
            ReaderDropped: The reader fell too far behind.
        """
        self._waiter, self._is_idle = None, False
        self.position = self.pushed
        if self._queue:
            found, self._queue = list(self._queue), []
            self._bytes = self._counted = 0
            return found
        if self._is_dropped:
            raise ReaderDropped(limit=f"{READER_BYTES} bytes or {self.limit} events")
        return None if self._is_closed else []

    async def __aiter__(self) -> AsyncIterator[AgentEvent]:
        queue = self._queue = deque(self._queue)
        while True:
            while queue:
                item = queue.popleft()
                if self._counted:
                    self._counted -= 1
                    self._bytes -= _size(item)
                yield unwrap_event(item)
                if self._room is not None and len(queue) <= self.limit // 2:
                    self._make_room()
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
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _make_room(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)


def _size(item: StreamItem) -> int:
    """Estimate the size of an event; the frequent small ones are not encoded for it."""
    event = item.event if type(item) is LoggedEvent else item
    if type(event) in (TextDelta, ReasoningDelta, ToolCallStreamDelta):
        return 64 + len(event.delta)  # type: ignore[union-attr]
    if type(event) is ToolCallDelta:
        return 64 + len(event.args_delta)
    return len(encode_event(event))


class EventFeed(msgspec.Struct, eq=False):
    """Fans a run's events out to its readers; without readers it costs nothing."""

    readers: tuple[EventReader, ...] = ()
    is_full: bool = False
    is_closed: bool = False
    count: int = 0
    """How many events it has emitted: the position of its latest event."""
    shared: dict[Hashable, Any] | None = None
    """What its readers share, by key; None while it has a single reader."""

    def attach(self, reader: EventReader) -> EventReader:
        """Add a reader; it gets every event from now on. On a closed feed it ends at once."""
        if self.readers and self.shared is None:
            self.shared = {}
        self.readers = (*self.readers, reader)
        reader.feed = self
        reader.pushed = reader.position = self.count
        if self.is_closed:
            reader.close()
        return reader

    def detach(self, reader: EventReader) -> None:
        """Remove a reader."""
        if self.readers == (reader,):
            self.readers, self.is_full = (), False
        else:
            self.readers = tuple(known for known in self.readers if known is not reader)
            self.is_full = any(known.is_attached and known.is_full for known in self.readers)
        reader.feed = None
        reader.close()

    def emit(self, event: StreamItem) -> None:
        """Queue an event for every reader."""
        self.count += 1
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
        """End the feed for every reader."""
        self.is_closed = True
        readers, self.readers = self.readers, ()
        for reader in readers:
            reader.close()


class OpenReaders:
    """Readers that are nudged from time to time, and closed together when the process stops."""

    __slots__ = ("_loop", "_nudge_s", "_readers")

    def __init__(self, nudge_s: float) -> None:
        self._readers: set[EventReader] = set()
        self._nudge_s = nudge_s
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop in which the timer runs, if it runs."""

    def __len__(self) -> int:
        return len(self._readers)

    def add(self, reader: EventReader) -> None:
        """Keep a reader until it is discarded."""
        self._readers.add(reader)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(self._nudge_s, self._nudge, loop)

    def discard(self, reader: EventReader) -> None:
        """Forget a reader that is not read any further."""
        self._readers.discard(reader)
        reader.leave()

    def close(self) -> None:
        """End all of them."""
        for reader in tuple(self._readers):
            reader.close()

    def _nudge(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake the readers that had nothing to read for long: one timer serves all of them."""
        if not self._readers or self._loop is not loop:
            self._loop = None
            return
        for reader in self._readers:
            reader.nudge()
        loop.call_later(self._nudge_s, self._nudge, loop)


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
