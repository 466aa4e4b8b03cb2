"""Native events on the wire: their own JSON form, one frame each."""

from collections.abc import Sequence

from awaken.contracts.events import AgentEvent, encode_event
from awaken.transport.sse import data_line


class NativeEncoder:
    """Encodes every event in its own JSON form."""

    def encode(self, event: AgentEvent) -> Sequence[bytes]:
        """Encode an event as one frame."""
        return (data_line(encode_event(event)),)
