"""Decodes server-sent events from bytes that may be split anywhere."""

import re
from collections.abc import Callable

EVENT_BYTES = 16 * 1024 * 1024
"""The largest single event that is read."""
_LINE_ENDS = re.compile(rb"\r\n|\r")
_BOM = b"\xef\xbb\xbf"


class SseTooLarge(Exception):
    """One event of a stream exceeds the size limit."""


class SseDecoder:
    """Buffers bytes and returns the data of every complete event.

    Each byte is read once or twice, however small the chunks are.
    """

    __slots__ = ("_buffer", "_has_begun", "_held", "_max_bytes", "_too_large")

    def __init__(
        self,
        max_bytes: int = EVENT_BYTES,
        too_large: Callable[[str], Exception] = SseTooLarge,
    ) -> None:
        self._buffer = bytearray()
        self._held = b""
        """Bytes whose meaning depends on the next ones."""
        self._has_begun = False
        self._max_bytes = max_bytes
        self._too_large = too_large
        """Builds the error of the caller."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add bytes; returns the data of the events that are complete with them.

        Raises:
            SseTooLarge: An event exceeds the limit; or the error of the caller's choice.
        """
        if self._held or not self._has_begun or b"\r" in chunk:
            chunk = self._normalize_line_ends(chunk)
        if buffer := self._buffer:
            seen = len(buffer) - 1
            buffer += chunk
            if buffer.find(b"\n\n", seen) < 0:
                self._check_size()
                return []
            chunk = bytes(buffer)
        events = chunk.split(b"\n\n")
        self._buffer = bytearray(events.pop())
        if self._buffer:
            self._check_size()
        return [data for event in events if (data := _read_data(event)) is not None]

    def end(self) -> list[bytes]:
        """End the stream; an event without its empty line counts if its last line is complete."""
        rest, self._buffer = bytes(self._buffer) + self._held, bytearray()
        data = _read_data(rest.rstrip(b"\r\n")) if rest.endswith((b"\n", b"\r")) else None
        return [] if data is None else [data]

    def _normalize_line_ends(self, chunk: bytes) -> bytes:
        """Convert line ends to line feeds; bytes whose meaning is still open are held back."""
        if self._held:
            chunk, self._held = self._held + chunk, b""
        if not self._has_begun:
            if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
                self._held = chunk
                return b""
            self._has_begun = True
            chunk = chunk.removeprefix(_BOM)
        if b"\r" in chunk:
            # The other half of a line end may be in the next chunk.
            self._held = b"\r" if chunk.endswith(b"\r") else b""
            chunk = _LINE_ENDS.sub(b"\n", chunk.removesuffix(self._held))
        return chunk

    def _check_size(self) -> None:
        if len(self._buffer) > self._max_bytes:
            message = f"one event of the stream exceeds {self._max_bytes} bytes"
            raise self._too_large(message)


def _read_data(event: bytes) -> bytes | None:
    """The data of an event; None if it has none or only blank data."""
    if event[:6] == b"data: " and b"\n" not in event:
        data = event[6:]
    else:
        lines = [
            line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")
        ]
        data = b"\n".join(lines)
    # What ends like JSON is not blank.
    return data if data[-1:] == b"}" or data.strip() else None
