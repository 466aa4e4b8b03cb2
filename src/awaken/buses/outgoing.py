"""What buses between processes share: what waits to be sent, and packets in parts."""

import logging
import os
from collections import Counter
from collections.abc import Iterator

import msgspec

from awaken.contracts.storage.bus import PACKET_MAX, Signal, SignalKind

from .memory import Subscriptions

logger = logging.getLogger(__name__)

OUTGOING_MAX = 10_000
"""How many signals wait for the carrier; of more, the oldest are lost."""

OUTGOING_BYTES_MAX = 16 * PACKET_MAX
"""How many bytes of packets wait, to all nodes together."""

_PARTIAL_MAX = 100
"""From how many senders parts of packets are kept."""

Batch = tuple[dict[tuple[str, bytes], SignalKind], list[tuple[str, bytes]]]
"""Signals by subject and payload, oldest first, and packets with their subjects."""


class Outgoing:
    """The signals and packets that wait for a carrier; what does not fit is dropped and counted."""

    def __init__(self, local: Subscriptions) -> None:
        self._local = local
        self._signals: dict[tuple[str, bytes], SignalKind] = {}
        self._packets: list[tuple[str, bytes]] = []
        self._waiting: Counter[str] = Counter()
        """How many bytes of packets wait, by subject."""
        self.dropped = 0
        """How many signals and packets could not be sent."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not (self._signals or self._packets)

    def encode_signal(self, signal: Signal, bytes_max: int) -> bytes | None:
        """Return a signal as JSON; None, and it is dropped, if no carrier could take it."""
        try:
            payload = msgspec.json.encode(signal)
        except UnicodeEncodeError:
            # An id with half a character, which no store has.
            self.drop_signal(signal.kind)
            return None
        if len(payload) > bytes_max:
            self.drop_signal(signal.kind)
            logger.warning("A signal of thread '%s…' is too long.", signal.thread_id[:64])
            return None
        return payload

    def add_signal(self, subject: str, payload: bytes, kind: SignalKind) -> None:
        """Let a signal wait; one that is equal to another is sent once."""
        self._signals[subject, payload] = kind
        if len(self._signals) > OUTGOING_MAX:
            self.drop_signal(self._signals.pop(next(iter(self._signals))))

    def add_packet(self, subject: str, payload: bytes) -> bool:
        """Let a packet wait; False, and it is dropped, if too much waits already."""
        size = len(payload)
        is_full = (
            self._waiting[subject] + size > PACKET_MAX
            or self._waiting.total() + size > OUTGOING_BYTES_MAX
        )
        if is_full:
            self.dropped += 1
            return False
        self._packets.append((subject, payload))
        self._waiting[subject] += size
        return True

    def take(self) -> Batch:
        """Take everything that waits."""
        signals, self._signals = self._signals, {}
        packets, self._packets = self._packets, []
        self._waiting.clear()
        return signals, packets

    def confirm(self, batch: Batch) -> None:
        """Note that the carrier has taken a batch."""
        if self._local.watchers:
            for kind, count in Counter(batch[0].values()).items():
                self._local.report(kind, "sent", count)

    def drop(self, batch: Batch) -> None:
        """Note that a batch is lost."""
        signals, packets = batch
        self.dropped += len(packets)
        for kind in signals.values():
            self.drop_signal(kind)

    def drop_signal(self, kind: SignalKind) -> None:
        """Note that a signal is lost."""
        self.dropped += 1
        if self._local.watchers:
            self._local.report(kind, "dropped")


class PacketParts:
    """Cuts packets into numbered parts, and puts those of other processes together."""

    def __init__(self, bytes_max: int = PACKET_MAX) -> None:
        self._bytes_max = bytes_max
        self._sender = os.urandom(4).hex()
        self._sent = 0
        self._partial: dict[tuple[str, bytes], _Partial] = {}

    def cut(self, payload: bytes, size: int) -> Iterator[bytes]:
        """Yield the parts of a packet, of which each carries `size` bytes."""
        self._sent += 1
        count = max(1, -(-len(payload) // size))
        for at in range(count):
            head = f"{self._sender}.{self._sent}.{at}.{count}:".encode()
            yield head + payload[at * size : (at + 1) * size]

    def join(self, subject: str, part: bytes) -> bytes | None:
        """Take a part; returns the packet with its last one.

        The parts of a sender come in order; a hole loses the packet.

        Raises:
            ValueError: It is no part, or its packet is too large.
        """
        head, _, piece = part.partition(b":")
        sender, number, place, parts = head.split(b".")
        at, count = int(place), int(parts)
        before = self._partial.pop((subject, sender), None)
        if at == 0:
            before = _Partial(number)
        if before is None or before.number != number or len(before.pieces) != at:
            return None
        before.pieces.append(piece)
        before.size += len(piece)
        if before.size > self._bytes_max:
            message = "the packet is too large"
            raise ValueError(message)
        if at + 1 >= count:
            return b"".join(before.pieces)
        self._partial[subject, sender] = before
        if len(self._partial) > _PARTIAL_MAX:
            del self._partial[next(iter(self._partial))]
        return None

    def forget(self) -> None:
        """Forget packets that are not whole: what is missing of them is lost."""
        self._partial.clear()


class _Partial:
    """A packet of which some parts are still to come."""

    __slots__ = ("number", "pieces", "size")

    def __init__(self, number: bytes) -> None:
        self.number = number
        self.pieces: list[bytes] = []
        self.size = 0
