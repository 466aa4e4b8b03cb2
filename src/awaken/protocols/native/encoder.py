"""Native events on the wire: their own JSON form, one frame each."""

from collections.abc import Sequence

from awaken.contracts.events import AgentEvent, encode_event
from awaken.transport.sse import data_line


class NativeEncoder:
    """Every event as it is."""

    def encode(self, event: AgentEvent) -> Sequence[bytes]:
        """One frame."""
        return (data_line(encode_event(event)),)
