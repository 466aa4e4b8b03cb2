"""The system clock and the default id source of a runtime."""

import os
import time
import weakref
from functools import partial

from awaken.contracts.clock import SystemClock

__all__ = ["SystemClock", "Uuid7Source"]


_COUNTER_MAX = 0xFFF
_VARIANTS = bytes(byte & 0x3F | 0x80 for byte in range(256))
"""Maps a random byte to one with the bits that mark the variant of the UUID."""
_TAILS = 256
"""How many random ends of ids are made at once."""


class Uuid7Source:
    """UUIDv7 ids that sort in the order in which this process made them."""

    __slots__ = ("__weakref__", "_counter", "_last_ms", "_place", "_prefix", "_tails")

    def __init__(self) -> None:
        self._tails: list[str] = []
        self._place = _TAILS
        self._last_ms = 0
        self._prefix = ""
        self._counter = 0
        # A forked child would otherwise repeat its parent's random numbers.
        os.register_at_fork(after_in_child=partial(_renew_seed, weakref.ref(self)))

    def new_id(self) -> str:
        """Return a fresh id."""
        now, place = time.time_ns() // 1_000_000, self._place
        if place == _TAILS:
            self._tails, place = _make_tails(), 0
            self._begin(max(now, self._last_ms))
        elif now > self._last_ms:
            self._begin(now)
        self._place = place + 1
        return self._prefix + self._tails[place]

    def _begin(self, now: int) -> None:
        """Make the first part of the ids of a millisecond, or of the next tails in it."""
        self._counter = 0 if now > self._last_ms else self._counter + 1
        if self._counter > _COUNTER_MAX:
            # The counter of this millisecond is used up: borrow the next one, order is kept.
            now, self._counter = now + 1, 0
        self._last_ms = now
        text = f"{now:012x}"
        self._prefix = f"{text[:8]}-{text[8:]}-7{self._counter:03x}-"

    def renew_seed(self) -> None:
        """Discard the random ends that were made and make new ones."""
        self._place = _TAILS


def _make_tails() -> list[str]:
    """Return the random ends of the next ids; they ascend, so that ids of one millisecond do."""
    # From the system: a client that has seen many ids must not be able to guess another. Between
    # two that follow each other there are about 2 ** 54.
    data = bytearray(os.urandom(8 * _TAILS))
    data[::8] = data[::8].translate(_VARIANTS)
    text = data.hex()
    ends = range(16, len(text) + 1, 16)
    return sorted([f"{text[end - 16 : end - 12]}-{text[end - 12 : end]}" for end in ends])


def _renew_seed(source: "weakref.ref[Uuid7Source]") -> None:
    alive = source()
    if alive is not None:
        alive.renew_seed()
