"""Messages that were read or written lately, so that a thread's next turn does not read them again.

Messages are only ever appended, and a thread's number is never used again, so what is kept can
be short but never wrong.
"""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

from awaken.contracts.messages.message import Message
from awaken.contracts.messages.sizes import message_bytes

CACHE_BYTES = 16 * 1024 * 1024
"""How much may be kept, measured as it is held; a thread that alone is larger is not kept."""
CACHE_THREADS = 1024
"""How many threads may be kept: of short ones each costs far more than it is long."""


class _Kept:
    __slots__ = ("messages", "size")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.size = 0


class TranscriptCache:
    """The first messages of threads, by thread number; the longest unused go first."""

    __slots__ = ("_kept", "_limit", "_size")

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._limit = limit
        self._size = 0

    def known(self, thread_no: int) -> list[Message]:
        """The messages that are kept of a thread, from its first on; never change the list."""
        kept = self._kept.get(thread_no)
        if kept is None:
            return []
        with suppress(KeyError):
            # It may be dropped meanwhile: reader threads ask as well.
            self._kept.move_to_end(thread_no)
        return kept.messages

    def extend(self, thread_no: int, after: int, messages: Sequence[Message]) -> None:
        """Keep messages that come after the first `after`; of no use, they are left out."""
        kept = self._kept.get(thread_no)
        if kept is None:
            if after:
                return
            kept = self._kept[thread_no] = _Kept()
        if len(kept.messages) != after:
            return
        size = sum(map(message_bytes, messages))
        kept.messages.extend(messages)
        kept.size += size
        self._size += size
        self._kept.move_to_end(thread_no)
        while self._size > self._limit or len(self._kept) > CACHE_THREADS:
            _, dropped = self._kept.popitem(last=False)
            self._size -= dropped.size

    def drop(self, thread_no: int) -> None:
        """Forget a thread."""
        dropped = self._kept.pop(thread_no, None)
        if dropped is not None:
            self._size -= dropped.size
