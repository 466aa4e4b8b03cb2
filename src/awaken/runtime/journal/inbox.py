"""Messages sent to a run while it executes; the run takes them in between two steps."""

from collections.abc import Sequence

import msgspec

from awaken.contracts.messages.message import Message
from awaken.runtime.primitives.signals import WakeSignal


class Inbox(msgspec.Struct, eq=False):
    """A bounded queue that refuses messages rather than losing them."""

    limit: int
    messages: tuple[Message, ...] = ()
    _signal: WakeSignal | None = None
    _is_closed: bool = False

    def put(self, messages: Sequence[Message]) -> bool:
        """Accept the messages, all or none; False when closed, full, or without messages."""
        if self._is_closed or not messages or len(self.messages) + len(messages) > self.limit:
            return False
        self.messages += tuple(messages)
        self.signal.ring()
        return True

    @property
    def signal(self) -> WakeSignal:
        """Wakes a waiting run when input arrives; created when first used."""
        if self._signal is None:
            self._signal = WakeSignal()
        return self._signal

    def drain(self) -> tuple[Message, ...]:
        """Remove and return all waiting messages, in order."""
        taken, self.messages = self.messages, ()
        return taken

    def close(self) -> tuple[Message, ...]:
        """Accept no more messages; return those that the run did not take in."""
        self._is_closed = True
        taken, self.messages = self.messages, ()
        return taken
