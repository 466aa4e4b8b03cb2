import struct
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.models.errors import AnswerTooLarge, MalformedAnswer, StreamInterrupted
from awaken.providers.bedrock.frames import FrameDecoder


def text_header(name: str, value: str) -> bytes:
    raw = value.encode()
    return bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(raw)) + raw


def framed(headers: bytes, payload: bytes) -> bytes:
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    prelude += struct.pack(">I", crc32(prelude))
    message = prelude + headers + payload
    return message + struct.pack(">I", crc32(message))


OTHER_TYPES = b"".join(
    bytes([1]) + bytes([97 + kind]) + bytes([kind]) + value
    for kind, value in (
        (0, b""),
        (1, b""),
        (2, b"x"),
        (3, b"xx"),
        (4, b"xxxx"),
        (5, b"x" * 8),
        (6, b"\x00\x02hi"),
        (8, b"x" * 8),
        (9, b"x" * 16),
    )
)
STREAM = (
    framed(text_header(":event-type", "one"), b'{"a":1}')
    + framed(OTHER_TYPES + text_header(":event-type", "zwei ü"), b"")
    + framed(b"", b"\x00\xff" * 40)
)


def read(*chunks: bytes) -> list[tuple[dict[str, str], bytes]]:
    decoder = FrameDecoder()
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    decoder.end()
    return [(frame.headers, frame.payload) for frame in frames]


WHOLE = [
    ({":event-type": "one"}, b'{"a":1}'),
    ({":event-type": "zwei ü"}, b""),
    ({}, b"\x00\xff" * 40),
]


def test_frames_are_read_as_botocore_reads_them() -> None:
    oracle = EventStreamBuffer()
    oracle.add_data(STREAM)
    theirs = [
        ({name: value for name, value in m.headers.items() if isinstance(value, str)}, m.payload)
        for m in oracle
    ]
    assert read(STREAM) == WHOLE == theirs


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_a_stream_that_is_split_anywhere_gives_the_same_frames(cut: int) -> None:
    assert read(STREAM[:cut], STREAM[cut:]) == WHOLE


def test_a_stream_that_comes_byte_by_byte_gives_the_same_frames() -> None:
    assert read(*(bytes([byte]) for byte in STREAM)) == WHOLE


def test_a_stream_that_ends_inside_a_frame_is_interrupted() -> None:
    ends = {len(framed(text_header(":event-type", "one"), b'{"a":1}')), 0, len(STREAM)}
    ends.add(len(STREAM) - len(framed(b"", b"\x00\xff" * 40)))
    for cut in set(range(len(STREAM))) - ends:
        with pytest.raises(StreamInterrupted):
            read(STREAM[:cut])


def test_every_flipped_bit_is_noticed() -> None:
    frame = framed(text_header(":event-type", "one"), b'{"a":1}')
    for place in range(len(frame)):
        for bit in range(8):
            damaged = bytearray(frame)
            damaged[place] ^= 1 << bit
            with pytest.raises(MalformedAnswer):
                read(bytes(damaged))


def test_a_frame_beyond_the_bound_is_refused_by_its_prelude() -> None:
    frame = framed(b"", b"x" * 100)
    with pytest.raises(AnswerTooLarge):
        list(FrameDecoder(max_bytes=99).feed(frame[:12]))
    assert len(list(FrameDecoder(max_bytes=len(frame)).feed(frame))) == 1


def test_a_frame_that_is_shorter_than_its_headers_is_malformed() -> None:
    for total, headers in ((0, 0), (15, 0), (20, 5), (16, 0xFFFFFFFF)):
        prelude = struct.pack(">II", total, headers)
        with pytest.raises(MalformedAnswer):
            list(FrameDecoder().feed(prelude + struct.pack(">I", crc32(prelude)) + b"x" * 64))


def test_headers_that_cannot_be_read_are_malformed() -> None:
    for headers in (
        b"\x09abc",
        b"\x01a",
        b"\x01a\x63",
        b"\x01a\x07\x00",
        b"\x01a\x07\x00\x05hi",
        b"\x01a\x07\x00\x01\xff",
        b"\x01\xff\x07\x00\x01a",
        b"\x01a\x09xx",
    ):
        with pytest.raises(MalformedAnswer):
            list(FrameDecoder().feed(framed(headers, b"")))


@given(st.binary(max_size=200), st.binary(max_size=60))
def test_noise_is_never_another_error(noise: bytes, headers: bytes) -> None:
    for data in (noise, framed(headers, noise)):
        try:
            list(FrameDecoder().feed(data))
        except (MalformedAnswer, AnswerTooLarge):
            continue
