"""An answer that is cut anywhere is a beginning of the whole one, and is said to be cut."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.contracts.models.errors import StreamInterrupted, TransportFailed
from awaken.contracts.models.inference import (
    ModelEvent,
    StopReason,
    TokenUsage,
    UsageReport,
    VendorAnswer,
)
from awaken.outbound.sse import SseDecoder
from awaken.testing import Reasoning, ToolCalls, Turn
from awaken.testing.model_server import FakeModelServer, Sent, stream_of
from awaken.testing.model_server.faults import Cut

from .formats import ANSWERS, CODECS, USAGE, asking, client_of, heard, outcome, play

EVERY_WIRE = pytest.mark.parametrize("wire", CODECS)
EVERYTHING = Turn(
    ["Grü", "ße 🙂"],
    reasoning=Reasoning("hm\n\n", "c2lnbmVk"),
    calls=ToolCalls([("weather", {"city": "Zürich 🙂"}), ("now", {})], split=3),
    usage=USAGE,
)


class Reader:
    """Reads a stream as the client does, and keeps what it understood before it failed."""

    def __init__(self, wire: str) -> None:
        self.events: list[ModelEvent] = []
        self._sse = SseDecoder()
        self._decoder = CODECS[wire]({}).decoder()

    def feed(self, piece: bytes) -> None:
        for data in self._sse.feed(piece):
            self.events += self._decoder.take(data)

    def end(self) -> None:
        for data in self._sse.end():
            self.events += self._decoder.take(data)
        self.events += self._decoder.end()


def read(wire: str, pieces: Iterable[bytes]) -> list[ModelEvent]:
    reader = Reader(wire)
    for piece in pieces:
        reader.feed(piece)
    reader.end()
    return reader.events


def without_account(events: list[ModelEvent]) -> list[ModelEvent]:
    return [event for event in events if not isinstance(event, UsageReport | VendorAnswer)]


def is_beginning(events: list[ModelEvent], whole: list[ModelEvent]) -> bool:
    return events == whole[: len(events)]


@EVERY_WIRE
def test_an_answer_cut_at_any_byte_is_a_beginning_and_interrupted(wire: str) -> None:
    stream = b"".join(stream_of(wire, EVERYTHING))
    whole, endings = read(wire, [stream]), set()
    for cut in range(len(stream)):
        reader = Reader(wire)
        reader.feed(stream[:cut])
        assert is_beginning(reader.events, whole), cut
        try:
            reader.end()
        except StreamInterrupted:
            assert is_beginning(reader.events, whole), cut
            endings.add("interrupted")
        else:
            # The vendor said why it stopped: nothing but the count of tokens may be missing.
            assert without_account(reader.events) == without_account(whole), cut
            endings.add("whole")
    assert "interrupted" in endings


@EVERY_WIRE
def test_an_answer_split_at_any_byte_is_the_same(wire: str) -> None:
    stream = b"".join(stream_of(wire, EVERYTHING))
    whole = read(wire, [stream])
    for cut in range(len(stream)):
        assert read(wire, [stream[:cut], stream[cut:]]) == whole, cut
    assert read(wire, (stream[at : at + 1] for at in range(len(stream)))) == whole


@EVERY_WIRE
@pytest.mark.parametrize("line_end", [b"\r\n", b"\r"], ids=["crlf", "cr"])
def test_every_line_end_is_the_same(wire: str, line_end: bytes) -> None:
    stream = b"".join(stream_of(wire, EVERYTHING))
    other = stream.replace(b"\n", line_end)
    assert read(wire, [other]) == read(wire, [stream])
    assert read(wire, (other[at : at + 1] for at in range(len(other)))) == read(wire, [stream])


@EVERY_WIRE
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_data_in_several_lines_is_the_same(wire: str, line_end: bytes) -> None:
    events = stream_of(wire, EVERYTHING)
    split = b"".join(event.replace(b",", b",\ndata: ", 1) for event in events)
    other = split.replace(b"\n", line_end)
    whole = read(wire, [b"".join(events)])
    assert read(wire, [other]) == whole
    assert read(wire, (other[at : at + 1] for at in range(len(other)))) == whole


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
CALLS = st.tuples(
    st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
    st.dictionaries(TEXTS, st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS),
)
TURNS = st.builds(
    Turn,
    text=st.lists(TEXTS, max_size=4),
    reasoning=st.none()
    | st.builds(Reasoning, TEXTS.filter(bool), st.sampled_from(["c2ln", "YQ=="])),
    calls=st.builds(ToolCalls, st.lists(CALLS, max_size=3), split=st.integers(1, 5)),
    stop=st.sampled_from([None, StopReason.MAX_TOKENS]),
    usage=st.builds(
        lambda fresh, read, answer, thought: TokenUsage(
            prompt_tokens=fresh + read,
            completion_tokens=answer + thought,
            total_tokens=fresh + read + answer + thought,
            cache_read_tokens=read,
            thinking_tokens=thought,
        ),
        *[st.integers(1, 10**6)] * 4,
    ),
)


@EVERY_WIRE
@given(turn=TURNS, size=st.integers(1, 80))
@settings(max_examples=60, deadline=None)
def test_what_a_vendor_says_is_what_is_read(wire: str, turn: Turn, size: int) -> None:
    stream = b"".join(stream_of(wire, turn))
    found = heard(read(wire, (stream[at : at + size] for at in range(0, len(stream), size))))
    calls = turn.calls.calls
    assert found.text == "".join(turn.text)
    assert found.reasoning == (turn.reasoning.text if turn.reasoning else "")
    assert [(name, arguments) for _, name, arguments in found.calls] == calls
    assert len({call_id for call_id, *_ in found.calls}) == len(calls)
    assert found.stop is (turn.stop or (StopReason.TOOL_USE if calls else StopReason.END_TURN))
    assert found.usage.plus(TokenUsage(cache_creation_tokens=0)) == turn.usage.plus(
        TokenUsage(cache_creation_tokens=0)
    )
    if wire != "openai_chat":
        assert found.signatures == ([turn.reasoning.signature] if turn.reasoning else [])


@EVERY_WIRE
@pytest.mark.parametrize("cut", ["abort", "close", "end"])
def test_a_connection_cut_at_any_place_gives_a_beginning_and_can_be_tried_again(
    wire: str, cut: Cut
) -> None:
    answer = ANSWERS["reasoned calls"]
    stream = b"".join(stream_of(wire, answer))
    whole = read(wire, [stream])
    places = [0, 1, *range(7, len(stream), len(stream) // 25)]
    entries = [Sent(answer, cut_after=place, cut=cut) for place in places]

    async def ask() -> int:
        interrupted = 0
        async with FakeModelServer(entries) as server, client_of(server.url, wire) as client:
            for place in places:
                events, error = await outcome(client, asking())
                if error is None:
                    assert without_account(events) == without_account(whole), place
                else:
                    assert isinstance(error, StreamInterrupted | TransportFailed), place
                    assert error.retryable
                    assert is_beginning(events, whole), place
                    interrupted += 1
        return interrupted

    assert play(ask()) > len(places) / 2
