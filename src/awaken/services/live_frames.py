"""Frames: the live events of a run on their way to another process, and how a reader takes them.

A reader asks the process that executes a run. It gets a snapshot (how far the log counts, and what
was shown after that), then numbered frames. Frames may be lost, doubled, late or from a process
that no longer has the run: a reader then asks for another snapshot, or reads the log.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from itertools import groupby
from typing import Protocol

import msgspec

from awaken.contracts.events import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    LoggedEvent,
    StateSnapshot,
    ToolCallStreamDelta,
    decode_event,
    encode_event,
    unwrap_event,
)
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta
from awaken.runtime.journal.streams import EventFeed, StreamItem

FORMAT = 1
"""The form of packets; one of another form is dropped."""
SILENCE_MS = 3_000
"""A source from which nothing came for so long is lost; it sends something each second."""
ASK_MS = 1_000
"""The least time between two requests for a snapshot."""
RENEW_MS = 5_000
"""How often a reading node says that it still reads."""
ASLEEP_MS = 1_000
"""A tick that comes so late says that this process slept, not that the source was silent."""
UNFINISHED_MAX = 512
"""With more unfinished events than this, pieces are joined."""

_NEVER_AGAIN = (ToolCallStreamDelta, ActivitySnapshot, ActivityDelta, StateSnapshot)
"""Shown while they happen only: a reader that attaches later does not get them."""


class Want(IntEnum):
    """What a reading node asks for."""

    NOTHING = 0
    MORE = 1
    SNAPSHOT = 2


class WatchRequest(msgspec.Struct, frozen=True, array_like=True, tag="w"):
    """A reading node asks for the events of a thread's run, or for no more of them."""

    thread_id: str
    want: int


class LiveFrame(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """Events of a run, in order; number 0 is a snapshot."""

    thread_id: str
    run_id: str
    version: int
    """The thread's version: a process that lost the run has an older one."""
    stream: int
    """Which snapshot it goes on from; a later snapshot of the same sender has a larger one."""
    n: int
    seq: int
    """How far the log counts, in a snapshot."""
    items: msgspec.Raw
    """Pairs: the place in the log, or 0, and the event."""
    made_at: int = 0
    """When it was made, by the clock of its sender; 0 from a version that did not tell."""

    def decode_items(self) -> list[StreamItem]:
        """Return the events.

        Raises:
            ValueError: They are damaged, or of a kind that this version does not know.
        """
        return [
            decode_event(raw) if seq == 0 else LoggedEvent(seq=seq, event=decode_event(raw))
            for seq, raw in _decode_items(self.items)
        ]


class Gone(msgspec.Struct, frozen=True, array_like=True, tag="g"):
    """The asked process does not execute a run of the thread."""

    thread_id: str


Message = WatchRequest | LiveFrame | Gone


class FrameWatcher(Protocol):
    """Observes the live events between processes. It must not raise and must not wait."""

    def on_frames(self, way: str, result: str, count: int) -> None:
        """Called when frames went `out` (`sent`, `dropped`) or came `in` (`taken`, `ignored`)."""
        ...

    def on_packet(self, way: str, size: int) -> None:
        """Called when a packet went `out` or came `in`, with its size in bytes."""
        ...

    def on_resync(self) -> None:
        """Called when a missing frame makes a reader ask for a snapshot."""
        ...

    def on_lag(self, ms: int) -> None:
        """Called for each frame that is taken: its age, by the clocks of both processes."""
        ...


class Packet(msgspec.Struct, frozen=True, array_like=True):
    """What one node sends to another at once."""

    form: int
    sender: str
    messages: tuple[msgspec.Raw, ...]


_decode_packet = msgspec.json.Decoder(Packet).decode
_decode_message = msgspec.json.Decoder(Message).decode
_decode_items = msgspec.json.Decoder(list[tuple[int, msgspec.Raw]]).decode
encode_message = msgspec.json.Encoder().encode


def encode_packet(sender: str, messages: Iterable[bytes]) -> bytes:
    """Put encoded messages into one packet."""
    raw = tuple(map(msgspec.Raw, messages))
    return encode_message(Packet(FORMAT, sender, raw))


def decode_packet(payload: bytes) -> tuple[str, list[Message]]:
    """Return the sender and the messages; what cannot be read is left out."""
    try:
        packet = _decode_packet(payload)
    except (msgspec.DecodeError, ValueError):
        return "", []
    if packet.form != FORMAT:
        return "", []
    found: list[Message] = []
    for raw in packet.messages:
        try:
            found.append(_decode_message(raw))
        except (msgspec.DecodeError, ValueError):
            # A kind of a later version, or damage: the frame is missing, which is noticed.
            continue
    return packet.sender, found


def encode_items(items: Sequence[StreamItem]) -> msgspec.Raw:
    """Encode events for frames, once for all that read them."""
    pairs = [
        (it.seq, msgspec.Raw(encode_event(it.event)))
        if type(it) is LoggedEvent
        else (0, msgspec.Raw(encode_event(it)))
        for it in items
    ]
    return msgspec.Raw(encode_message(pairs))


class RemoteRun:
    """A run of another process as its frames show it; a `LiveRun`."""

    __slots__ = ("_unfinished", "event_seq", "feed", "run_id")

    def __init__(self, run_id: str, event_seq: int, unfinished: Iterable[StreamItem]) -> None:
        self.run_id = run_id
        self.event_seq = event_seq
        self.feed = EventFeed()
        self._unfinished = list(map(unwrap_event, unfinished))

    def add(self, items: Iterable[StreamItem]) -> None:
        """Show events; those that the log has already are left out."""
        for item in items:
            if type(item) is LoggedEvent:
                if item.seq <= self.event_seq:
                    continue
                # What was shown before is durable now.
                self.event_seq = item.seq
                self._unfinished = []
            elif type(item) not in _NEVER_AGAIN:
                self._unfinished.append(item)  # type: ignore[arg-type]
            self.feed.emit(item)
        if len(self._unfinished) > UNFINISHED_MAX:
            self._unfinished = join_deltas(self._unfinished)

    def list_unfinished_events(self) -> list[AgentEvent]:
        """Return what was shown after `event_seq`, with streamed pieces joined."""
        self._unfinished = join_deltas(self._unfinished)
        return list(self._unfinished)


class RemoteSource:
    """From which node the events of one thread come: the rules of a reader, without time or I/O.

    At most one node is the source: the one that was asked and answered with a snapshot of a version
    that is not older than the latest one seen. Its frames count from there; frames of others, and
    those out of order, are dropped.
    """

    def __init__(
        self,
        thread_id: str,
        ask: Callable[[str, WatchRequest], None],
        on_snapshot: Callable[[], None],
    ) -> None:
        self.thread_id = thread_id
        self.run: RemoteRun | None = None
        """The run as the source shows it; replaced by every snapshot."""
        self.asked: str | None = None
        """The node that is asked for events; None: it has still to be found."""
        self.resyncs = 0
        """How often a missing frame made it ask for a snapshot."""
        self._ask = ask
        self._on_snapshot = on_snapshot
        self._source: str | None = None
        self._latest: str | None = None
        """The node of the latest snapshot, whose number is kept also after it was lost."""
        self._version = 0
        self._stream = self._n = 0
        self._heard_at = self._asked_at = self._asked_since = 0
        self._renewed_at = self._ticked_at = 0
        self._is_behind = False
        """Whether a frame is missing, so that the next ones are of no use."""

    def watch(self, node: str, now: int) -> None:
        """Ask a node, unless it was asked already; until it answers, an earlier source stays."""
        if node != self.asked:
            self.asked = node
            self._asked_since = now
            self._asked_at = now - ASK_MS
            self._ask_snapshot(now)

    def leave(self) -> None:
        """Tell the source that this process has no readers any more."""
        for node in {self.asked, self._source} - {None}:
            self._ask(str(node), WatchRequest(self.thread_id, Want.NOTHING))
        self.lose()

    def lose(self) -> None:
        """Have no source any more; readers go on with the log."""
        self.asked = self._source = None
        self._close_run()

    def take_frame(self, sender: str, frame: LiveFrame, now: int) -> bool:
        """Take a snapshot, or the next frame of the source; False: it is of no use."""
        if frame.n == 0:
            return self._take_snapshot(sender, frame, now)
        if self.run is None or sender != self._source or frame.stream != self._stream:
            # A process that wakes up late does not know that another has its run.
            return False
        self._heard_at = now
        if frame.n <= self._n:
            return False
        if frame.n > self._n + 1:
            self._miss(now)
            return False
        try:
            items = frame.decode_items()
        except ValueError:
            self._miss(now)
            return False
        self._n, self._version = frame.n, max(frame.version, self._version)
        self.run.add(items)
        return True

    def take_gone(self, sender: str) -> None:
        """Note that a node does not execute the run, or no longer."""
        if sender == self._source:
            self._source = None
            self._close_run()
        if sender == self.asked:
            self.asked = self._source

    def tick(self, now: int) -> None:
        """Renew the interest, ask again, or give up a node that is silent."""
        if now - self._ticked_at >= ASLEEP_MS:
            # What the node has sent meanwhile may still have to be read.
            self._heard_at = max(self._heard_at, now - SILENCE_MS + ASLEEP_MS)
        self._ticked_at = now
        if self._source is not None and now - self._heard_at >= SILENCE_MS:
            if self.asked == self._source:
                self.asked = None
            self._source = None
            self._close_run()
        if self.asked is None:
            return
        if self.asked != self._source:
            if now - self._asked_since >= SILENCE_MS:
                self.asked = self._source
            else:
                self._ask_snapshot(now)
        elif self._is_behind:
            self._ask_snapshot(now)
        elif now - self._renewed_at >= RENEW_MS:
            self._renewed_at = now
            self._ask(self.asked, WatchRequest(self.thread_id, Want.MORE))

    def _take_snapshot(self, sender: str, frame: LiveFrame, now: int) -> bool:
        is_old = sender == self._latest and frame.stream <= self._stream
        if sender != self.asked or frame.version < self._version or is_old:
            return False
        try:
            unfinished = frame.decode_items()
        except ValueError:
            # An event of a later version: until the run has shown others, the log has to do.
            return False
        self._close_run()
        self._source = self._latest = sender
        self._version = frame.version
        self._stream, self._n = frame.stream, 0
        self._heard_at = self._renewed_at = now
        self._is_behind = False
        self.run = RemoteRun(frame.run_id, frame.seq, unfinished)
        self._on_snapshot()
        return True

    def _miss(self, now: int) -> None:
        if not self._is_behind:
            self._is_behind = True
            self.resyncs += 1
        self._ask_snapshot(now)

    def _ask_snapshot(self, now: int) -> None:
        if self.asked is not None and now - self._asked_at >= ASK_MS:
            self._asked_at = self._renewed_at = now
            self._ask(self.asked, WatchRequest(self.thread_id, Want.SNAPSHOT))

    def _close_run(self) -> None:
        run, self.run = self.run, None
        if run is not None:
            run.feed.close()


def join_deltas(events: Iterable[AgentEvent]) -> list[AgentEvent]:
    """Join the pieces of one text that follow each other."""
    joined: list[AgentEvent] = []
    for key, group in groupby(events, _text_of):
        pieces = list(group)
        joined += pieces if key is None or len(pieces) == 1 else [_join_pieces(pieces)]
    return joined


def _text_of(event: AgentEvent) -> tuple[type, str] | None:
    """Which text an event is a piece of; None if it is none."""
    match event:
        case TextDelta() | ReasoningDelta():
            return type(event), ""
        case ToolCallDelta():
            return ToolCallDelta, event.id
        case _:
            return None


def _join_pieces(pieces: Sequence[AgentEvent]) -> AgentEvent:
    text = "".join(
        it.args_delta if isinstance(it, ToolCallDelta) else it.delta
        for it in pieces
        if isinstance(it, TextDelta | ReasoningDelta | ToolCallDelta)
    )
    match pieces[0]:
        case ToolCallDelta(id=call_id):
            return ToolCallDelta(id=call_id, args_delta=text)
        case ReasoningDelta():
            return ReasoningDelta(delta=text)
        case _:
            return TextDelta(delta=text)
