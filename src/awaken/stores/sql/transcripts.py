"""A cache of recent messages, so that a thread's next turn does not read them again.

Messages are only ever appended, and a thread's number is never used again, so the cache may lack
messages but is never wrong.
"""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

from awaken.contracts.messages.message import Message, MessageList
from awaken.contracts.messages.sizes import message_bytes

CACHE_BYTES = 16 * 1024 * 1024
"""How much memory the cache may use; a thread that alone is larger is not cached."""
CACHE_THREADS = 1024
"""How many threads may be cached: a short thread costs far more than its messages."""


class _Kept:
    __slots__ = ("messages", "size")

    def __init__(self) -> None:
        self.messages = MessageList()
        self.size = 0


class TranscriptCache:
    """The first messages of threads, by thread number; evicts the least recently used."""

    __slots__ = ("_kept", "_limit", "_size")

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._limit = limit
        self._size = 0

    def find_messages(self, thread_no: int) -> list[Message]:
        """Return the cached messages of a thread from its first on; never change the list."""
        kept = self._kept.get(thread_no)
        if kept is None:
            return []
        with suppress(KeyError):
            # Another reader thread may drop the entry meanwhile.
            self._kept.move_to_end(thread_no)
        return kept.messages

    def extend(self, thread_no: int, after: int, messages: Sequence[Message]) -> None:
        """Cache the messages that follow the first `after`; ignored if they leave a gap."""
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
