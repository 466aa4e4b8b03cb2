"""Encodes events as the frames of a protocol, once for all readers of a run that are level.

Encoders have state, so two readers get the same frames only if their encoders are in the same
state at the same event. Such readers are level: they share one encoder, and each event is encoded
when the first of them needs it. A reader that attaches midway has its own encoder until it is
level with others.
"""

import asyncio
from collections.abc import Hashable, Iterable, Sequence
from copy import deepcopy
from typing import Protocol

from awaken.contracts.events import AgentEvent, ErrorEvent, LoggedEvent, MessagesSnapshot
from awaken.runtime.journal.streams import EventFeed, ReaderDropped, StreamItem
from awaken.services.event_streams import Batch, EventStream


class Encoder(Protocol):
    """Encodes events for one protocol; depends only on the events it was given."""

    def encode(self, event: AgentEvent) -> Sequence[bytes]:
        """Encode an event as frames: the lines of each, without an id and without a blank line.

        After a terminal event there are no frames, unless a suspended run resumes. A
        `MessagesSnapshot` leaves the state as it is.
        """
        ...

    def state(self) -> object:
        """What later frames depend on; encoders of one class with equal states are the same."""
        ...


def data_line(payload: bytes) -> bytes:
    """A frame that consists of one data line."""
    return b"data: " + payload


def frames(encoder: Encoder, batch: Iterable[StreamItem], branch: bytes = b"") -> bytes:
    """Encode a batch; the last frame of a logged event carries the event's id."""
    parts: list[bytes] = []
    for item in batch:
        if type(item) is LoggedEvent:
            lines = encoder.encode(item.event)
            if lines:
                parts += lines[:-1]
                parts.append(b"id: %d%b\n%b" % (item.seq, branch, lines[-1]))
        else:
            parts += encoder.encode(item)  # type: ignore[arg-type]
    parts.append(b"")
    return b"\n\n".join(parts) if len(parts) > 1 else b""


class EncodedEvent:
    """The frames of one event. The readers that have not come to it yet keep it alive."""

    __slots__ = ("frames", "next")

    def __init__(self, frames: bytes) -> None:
        self.frames = frames
        self.next: EncodedEvent | None = None


_NOWHERE = -2


class SharedEncoder:
    """The encoder of the readers of a run that are level, and the place that it has reached."""

    __slots__ = ("encoder", "latest", "members", "position")

    def __init__(self, encoder: Encoder, position: int) -> None:
        self.encoder = encoder
        self.position = position
        """The position in the run's feed up to which events are encoded."""
        self.latest = EncodedEvent(b"")
        self.members = 0


class ReaderEncoder:
    """Encodes the events of one reader, together with the readers that are level with it."""

    __slots__ = ("_branch", "_encoder", "_feed", "_key", "_latest", "_position", "_shared")

    def __init__(self, encoder: Encoder, branch: bytes = b"") -> None:
        self._encoder = encoder
        """The reader's own encoder; the shared one while it is level with others."""
        self._branch = branch
        self._position = -1
        """The position in the feed that it has reached; negative: none yet."""
        self._shared: SharedEncoder | None = None
        self._latest: EncodedEvent | None = None
        """The latest shared frames that the reader has."""
        self._feed: EventFeed | None = None
        """The feed that it reads; its shared encoder has this key there."""
        self._key: Hashable = None

    async def catch_up(self, before: list[AgentEvent]) -> None:
        """Give the encoder the events that the client already has, without output."""
        for number, event in enumerate(before, 1):
            self._encoder.encode(event)
            if number % 1000 == 0:
                # Other tasks must run while the encoder catches up with a long run.
                await asyncio.sleep(0)
        before.clear()

    def encode(self, batch: Batch, source: EventStream) -> bytes:
        """Encode a batch of a stream.

        Raises:
            ReaderDropped: The reader needs an encoder of its own, and the shared one is ahead.
        """
        reader = source.live
        feed = None if reader is None else reader.feed
        if feed is not self._feed:
            if self._shared is not None and self._latest is not self._shared.latest:
                raise ReaderDropped(limit="the other readers")
            self._part()
            self._feed = feed
        if reader is None or feed is None:
            return frames(self._encoder, batch, self._branch)
        places = feed.shared
        if self._shared is None and (places is None or not self._join(places, source.namespace)):
            chunk = frames(self._encoder, batch, self._branch)
            self._position = reader.position
            if places is not None:
                self._join(places, source.namespace)
            return chunk
        return self._share_frames(batch, reader.position)

    def encode_error(self, error: ErrorEvent) -> bytes:
        """Encode the error with which the stream ends."""
        self._part()
        return frames(self._encoder, (error,))

    def close(self) -> None:
        """Leave the readers that are level; the last of them takes the encoder along."""
        shared, self._shared, self._latest = self._shared, None, None
        if shared is not None:
            shared.members -= 1
            if not shared.members and self._feed is not None and self._feed.shared is not None:
                del self._feed.shared[self._key]

    def _join(self, places: dict[Hashable, SharedEncoder], namespace: str) -> bool:
        """Share the encoder of the readers that are level, if this reader is one of them."""
        if self._position < 0:
            return False
        key = (type(self._encoder), self._branch, namespace)
        shared = places.get(key)
        if shared is None:
            shared = places[key] = SharedEncoder(self._encoder, self._position)
        elif shared.position != self._position or shared.encoder.state() != self._encoder.state():
            return False
        shared.members += 1
        self._encoder, self._shared, self._latest = shared.encoder, shared, shared.latest
        self._key = key
        return True

    def _share_frames(self, batch: Batch, position: int) -> bytes:
        """Take the frames of events that are encoded, and encode the others for all readers."""
        parts: list[bytes] = []
        shared, latest = self._shared, self._latest
        assert shared is not None
        assert latest is not None
        for item in batch:
            if type(item) is MessagesSnapshot:
                # It was added for this reader, and depends on no state.
                parts.append(frames(shared.encoder, (item,)))
                continue
            if latest.next is None:
                # While it encodes, and if it fails, there is no place at which others could join.
                shared.position = _NOWHERE
                latest.next = EncodedEvent(frames(shared.encoder, (item,), self._branch))
                shared.latest = latest.next
            self._latest = latest = latest.next
            parts.append(latest.frames)
        if latest is shared.latest:
            shared.position = position
        return b"".join(parts)

    def _part(self) -> None:
        """Go on with an encoder of its own."""
        if self._shared is not None and self._shared.members > 1:
            self._encoder = deepcopy(self._encoder)
        self.close()
        self._position = -1
