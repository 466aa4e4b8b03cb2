"""Messages sent to a run while it executes; it takes them in between two steps."""

from collections.abc import Sequence

from awaken.contracts.messages.message import Message
from awaken.runtime.primitives.wake_signal import WakeSignal


class Inbox:
    """A bounded queue that refuses rather than loses."""

    __slots__ = ("_is_closed", "_limit", "bell", "messages")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.bell = WakeSignal()
        self.messages: list[Message] = []
        self._is_closed = False

    def put(self, messages: Sequence[Message]) -> bool:
        """Take the messages, all or none; False when closed, full or there is nothing to take."""
        if self._is_closed or not messages or len(self.messages) + len(messages) > self._limit:
            return False
        self.messages.extend(messages)
        self.bell.ring()
        return True

    def drain(self) -> list[Message]:
        """Return everything that waits, in order."""
        taken, self.messages = self.messages, []
        return taken

    def close(self) -> list[Message]:
        """Take no more; returns what nobody took in."""
        self._is_closed = True
        return self.drain()
