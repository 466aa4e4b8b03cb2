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
from awaken.runtime.journal.streams import ReaderDropped, StreamItem
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

    __slots__ = ("_branch", "_encoder", "_key", "_latest", "_places", "_shared")

    def __init__(self, encoder: Encoder, branch: bytes = b"") -> None:
        self._encoder = encoder
        """The reader's own encoder; the shared one while it is level with others."""
        self._branch = branch
        self._shared: SharedEncoder | None = None
        self._latest: EncodedEvent | None = None
        """The latest shared frames that the reader has."""
        self._places: dict[Hashable, SharedEncoder] | None = None
        """The shared encoders of the feed, of which this reader's has this key."""
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
        if self._shared is not None:
            if reader is not None:
                return self._share_frames(self._shared, batch, reader.position)
            if self._latest is not self._shared.latest:
                raise ReaderDropped(limit="the other readers")
            self._part()
        chunk = frames(self._encoder, batch, self._branch)
        feed = None if reader is None else reader.feed
        if reader is not None and feed is not None and feed.shared is not None:
            self._join(feed.shared, reader.position, source.namespace)
        return chunk

    def encode_error(self, error: ErrorEvent) -> bytes:
        """Encode the error with which the stream ends."""
        if self._shared is not None:
            self._part()
        return frames(self._encoder, (error,))

    def close(self) -> None:
        """Leave the readers that are level; the last of them takes the encoder along."""
        shared, self._shared, self._latest = self._shared, None, None
        if shared is not None:
            shared.members -= 1
            if not shared.members and self._places is not None:
                del self._places[self._key]

    def _join(self, places: dict[Hashable, SharedEncoder], position: int, namespace: str) -> None:
        """Share the encoder of the readers that are level, if this reader is."""
        key = (type(self._encoder), self._branch, namespace)
        shared = places.get(key)
        if shared is None:
            shared = places[key] = SharedEncoder(self._encoder, position)
        elif shared.position != position or shared.encoder.state() != self._encoder.state():
            return
        shared.members += 1
        self._encoder, self._shared, self._latest = shared.encoder, shared, shared.latest
        self._places, self._key = places, key

    def _share_frames(self, shared: SharedEncoder, batch: Batch, position: int) -> bytes:
        """Take the frames of events that are encoded, and encode the others for all readers."""
        parts: list[bytes] = []
        latest = self._latest
        assert latest is not None
        for item in batch:
            if type(item) is MessagesSnapshot:
                # It was added for this reader, and depends on no state.
                parts.append(frames(shared.encoder, (item,)))
                continue
            if latest.next is None:
                # While it encodes, and if it fails, there is no place at which others could join.
                shared.position = -1
                latest.next = EncodedEvent(frames(shared.encoder, (item,), self._branch))
                shared.latest = latest.next
            self._latest = latest = latest.next
            parts.append(latest.frames)
        if latest is shared.latest:
            shared.position = position
        return b"".join(parts)

    def _part(self) -> None:
        """Go on with an encoder of its own."""
        assert self._shared is not None
        if self._shared.members > 1:
            self._encoder = deepcopy(self._encoder)
        self.close()
