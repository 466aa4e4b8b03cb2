"""How an answer arrives when something is wrong: late, cut, spoiled, endless, or not at all."""

import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Literal

from awaken.contracts.messages.deltas import TextDelta
from awaken.testing.scripted_model import Answer

from .answers import ModelRequest, Said

Cut = Literal["abort", "close", "end"]
"""Reset the connection; close it in the middle of the body; end the body as if it were whole."""
Spoil = Callable[[bytes], bytes]
_DEPTH = 100_000
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sent:
    """An answer, and how it is sent."""

    answer: "Answer | Said | Callable[[ModelRequest], Answer | Said]"
    chunk_bytes: int | None = None
    """Send this many bytes at a time; 1 splits every character and every JSON token."""
    pause: Callable[[], Awaitable[object]] | None = None
    """Awaited before every piece, such as `semaphore.acquire` or `event.wait`."""
    cut_after: int | None = None
    """Send so many bytes of the body and no more."""
    cut: Cut = "abort"
    spoil: Spoil | None = None
    """Changes the JSON of the event number `spoil_at`."""
    spoil_at: int = 1
    is_gzip: bool = False

    @property
    def body_end(self) -> Cut:
        """How the body ends."""
        return "end" if self.cut_after is None else self.cut

    @property
    def headers(self) -> dict[str, str]:
        """What the headers say about the body."""
        return {"content-encoding": "gzip"} if self.is_gzip else {}


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer of HTTP itself: a status, headers and a body that may have no end."""

    status: int
    body: bytes | Callable[[], Iterable[bytes]] = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Silence:
    """The request is read and nothing is ever sent."""


def redirect(location: str) -> HttpAnswer:
    """Send the client to another address."""
    return HttpAnswer(307, headers={"location": location})


def endless(text: str = "on and on " * 100) -> Said:
    """Say the same for ever, in valid events."""
    return Said(repeat(TextDelta(delta=text)))


def long_line(mebibytes: int = 100) -> HttpAnswer:
    """One event without end of line."""
    pieces = (b'data: {"text":"', *repeat(b"x" * _MEBIBYTE, mebibytes))
    return HttpAnswer(200, lambda: pieces, {"content-type": "text/event-stream"})


def break_json(data: bytes) -> bytes:
    """JSON that ends in the middle."""
    return data[: len(data) // 2]


def deep(data: bytes) -> bytes:
    """JSON with a further field that is nested a hundred thousand times."""
    return b'{"x":' + b"[" * _DEPTH + b"]" * _DEPTH + b"," + data[1:]


def not_a_number(data: bytes) -> bytes:
    """JSON with a further field that JSON has no number for."""
    return b'{"x":NaN,' + data[1:]


def double_fields(data: bytes) -> bytes:
    """JSON with every field twice."""
    return data[:-1] + b"," + data[1:]


def spoil_event(events: Iterator[bytes], spoil: Spoil, at: int) -> Iterator[bytes]:
    """Change one event."""
    for number, event in enumerate(events):
        if number == at:
            head, _, data = event.rpartition(b"data: ")
            yield head + b"data: " + spoil(data.removesuffix(b"\n\n")) + b"\n\n"
        else:
            yield event


def gzip_pieces(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Compress a body so that each piece can be read when it arrives."""
    press = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    for piece in pieces:
        yield press.compress(piece) + press.flush(zlib.Z_SYNC_FLUSH)
    yield press.flush()


def resize_pieces(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Split pieces into small ones."""
    return chain.from_iterable(
        (piece[start : start + size] for start in range(0, len(piece), size)) for piece in pieces
    )


def cut_short(pieces: Iterator[bytes], left: int) -> Iterator[bytes]:
    """Give the first bytes only."""
    for piece in pieces:
        if left <= 0:
            return
        yield piece[:left]
        left -= len(piece)


def without_last(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Give all pieces but the last."""
    held: bytes | None = None
    for piece in pieces:
        if held is not None:
            yield held
        held = piece
