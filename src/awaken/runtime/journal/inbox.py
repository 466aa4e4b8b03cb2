"""Messages sent to a run while it executes; it takes them in between two steps."""

from collections.abc import Sequence

from awaken.contracts.messages.message import Message
from awaken.runtime.primitives.signals import WakeSignal


class Inbox:
    """A bounded queue that refuses rather than loses."""

    __slots__ = ("_is_closed", "_limit", "_signal", "messages")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._signal: WakeSignal | None = None
        self.messages: list[Message] = []
        self._is_closed = False

    def put(self, messages: Sequence[Message]) -> bool:
        """Take the messages, all or none; False when closed, full or there is nothing to take."""
        if self._is_closed or not messages or len(self.messages) + len(messages) > self._limit:
            return False
        self.messages.extend(messages)
        self.signal.ring()
        return True

    @property
    def signal(self) -> WakeSignal:
        """Wakes the run when something came that it may wait for; made when first used."""
        if self._signal is None:
            self._signal = WakeSignal()
        return self._signal

    def drain(self) -> list[Message]:
        """Return everything that waits, in order."""
        taken, self.messages = self.messages, []
        return taken

    def close(self) -> list[Message]:
        """Take no more; returns what the run did not take in."""
        self._is_closed = True
        taken, self.messages = self.messages, []
        return taken
