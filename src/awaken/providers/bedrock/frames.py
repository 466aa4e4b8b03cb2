"""AWS event stream frames, read from chunks that may be cut anywhere."""

import struct
from collections.abc import Iterator
from zlib import crc32

from awaken.contracts.models.errors import AnswerTooLarge, MalformedAnswer, StreamInterrupted
from awaken.contracts.record import Record

FRAME_BYTES = 16 * 1024 * 1024
"""The maximum size of one frame."""
_PRELUDE = struct.Struct(">III")
_CRC_BYTES = 4
_KNOWN_HEADERS = 64
_TEXT, _BYTES = 7, 6
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""How many bytes a header value of each other type takes."""


class BedrockFrame(Record, frozen=True, kw_only=True):
    """One message of the stream; headers that are not text are left out."""

    headers: dict[str, str]
    payload: bytes


class FrameDecoder:
    """Collects bytes and yields every complete frame; both checksums are verified."""

    __slots__ = ("_buffer", "_known", "_max_bytes")

    def __init__(self, max_bytes: int = FRAME_BYTES) -> None:
        self._buffer = bytearray()
        self._known: dict[bytes, dict[str, str]] = {}
        self._max_bytes = max_bytes

    def feed(self, chunk: bytes) -> Iterator[BedrockFrame]:
        """Take more bytes and yield the frames that are complete, each before the next is read.

        Raises:
            AnswerTooLarge: A frame exceeds the limit.
            MalformedAnswer: The bytes are not frames, or they are damaged.
        """
        self._buffer += chunk
        data, start = self._buffer, 0
        while len(data) - start >= _PRELUDE.size:
            end = start + self._length(start)
            if len(data) < end:
                break
            yield self._frame(bytes(data[start:end]))
            start = end
        del data[:start]

    def end(self) -> None:
        """Check that the connection was not closed inside a frame.

        Raises:
            StreamInterrupted: A frame is incomplete.
        """
        if self._buffer:
            message = "the connection was closed in the middle of a frame"
            raise StreamInterrupted(message)

    def _length(self, start: int) -> int:
        total, headers, checksum = _PRELUDE.unpack_from(self._buffer, start)
        if crc32(self._buffer[start : start + _PRELUDE.size - _CRC_BYTES]) != checksum:
            message = "the checksum of a frame's prelude is wrong"
            raise MalformedAnswer(message)
        if total > self._max_bytes:
            message = f"one frame of the stream exceeds {self._max_bytes} bytes"
            raise AnswerTooLarge(message)
        if headers + _PRELUDE.size + _CRC_BYTES > total:
            message = "a frame is shorter than its headers"
            raise MalformedAnswer(message)
        return int(total)

    def _frame(self, data: bytes) -> BedrockFrame:
        payload_end = len(data) - _CRC_BYTES
        if crc32(data[:payload_end]) != int.from_bytes(data[payload_end:], "big"):
            message = "the checksum of a frame is wrong"
            raise MalformedAnswer(message)
        headers_end = _PRELUDE.size + _PRELUDE.unpack_from(data)[1]
        headers = self._headers(data[_PRELUDE.size : headers_end])
        return BedrockFrame(headers=headers, payload=data[headers_end:payload_end])

    def _headers(self, data: bytes) -> dict[str, str]:
        """Read headers; almost all frames of a stream have the same."""
        known = self._known.get(data)
        if known is not None:
            return known
        try:
            made = _headers(data)
        except (IndexError, KeyError, ValueError) as error:
            message = "the headers of a frame cannot be read"
            raise MalformedAnswer(message) from error
        if len(self._known) < _KNOWN_HEADERS:
            self._known[data] = made
        return made


def _headers(data: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while at < len(data):
        name_end = at + 1 + data[at]
        kind, value = data[name_end], name_end + 1
        if kind in (_TEXT, _BYTES):
            size = int.from_bytes(data[value : value + 2], "big")
            value += 2
        else:
            size = _SIZES[kind]
        end = value + size
        if end > len(data):
            message = "a header extends beyond the headers"
            raise ValueError(message)
        if kind == _TEXT:
            found[data[at + 1 : name_end].decode()] = data[value:end].decode()
        at = end
    return found
