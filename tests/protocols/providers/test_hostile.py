"""Whatever a vendor sends, a call ends with a typed error, in bounded memory, leaving nothing."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import chain, repeat
from typing import Any

import msgspec
import pytest

from awaken.contracts.messages.deltas import ReasoningDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.models.errors import (
    AnswerTooLarge,
    MalformedAnswer,
    ModelError,
    ModelTimeout,
    ProviderFailed,
    StreamInterrupted,
    TransportFailed,
)
from awaken.contracts.models.inference import ModelEvent
from awaken.providers.http.client import HttpModelClient
from awaken.providers.http.transport import ANSWER_BYTES
from awaken.testing import Reasoning, Turn
from awaken.testing.model_server import (
    FakeModelServer,
    HttpAnswer,
    Said,
    Sent,
    Silence,
    break_json,
    deep,
    double_fields,
    endless,
    long_line,
    not_a_number,
    redirect,
    stream_of,
)

from .formats import ANSWERS, CODECS, asking, client_of, heard, listen, outcome, play

EVERY_WIRE = pytest.mark.parametrize("wire", CODECS)
MOST_MEMORY = 96 * 1024 * 1024
BIG = "x" * 100_000
WHOLE = Turn(
    "hello", reasoning=Reasoning("hm", "c2ln"), calls=[("go", {"a": [1]}, "c1"), ("go", {}, "c2")]
)


def failing(wire: str, answer: Any, *, timeout_ms: int = 10_000) -> ModelError:
    """The error of one call; its connection is closed by then, and no memory was wasted."""

    async def ask() -> ModelError:
        async with (
            FakeModelServer([answer]) as server,
            client_of(server.url, wire, timeout_ms=timeout_ms) as client,
        ):
            error = await drained(client)
            await server.all_closed()
            return error

    tracemalloc.start()
    try:
        error = play(ask())
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()
    return error


async def drained(client: HttpModelClient) -> ModelError:
    """Read to the end and keep nothing, as a run does whose readers keep up."""
    try:
        async for _ in client.stream(asking()):
            pass
    except ModelError as error:
        return error
    raise AssertionError("the answer was taken for a good one")


def many_calls() -> Iterator[ModelEvent]:
    for number in range(100_000):
        yield ToolCallStart(id=f"c{number}", name="go")
        yield ToolCallDelta(id=f"c{number}", args_delta="{}")


ENDLESS: dict[str, Callable[[], Any]] = {
    "text": lambda: endless(BIG),
    "reasoning": lambda: Said(repeat(ReasoningDelta(delta=BIG))),
    "calls": lambda: Said(many_calls()),
    "line": long_line,
}


@EVERY_WIRE
@pytest.mark.parametrize("kind", ENDLESS)
def test_what_has_no_end_is_given_up(wire: str, kind: str) -> None:
    assert isinstance(failing(wire, ENDLESS[kind]()), AnswerTooLarge)


@EVERY_WIRE
def test_no_more_than_the_bound_is_read(wire: str) -> None:
    async def ask() -> int:
        read = 0
        async with FakeModelServer([endless(BIG)]) as server, client_of(server.url, wire) as client:
            with suppress(AnswerTooLarge):
                async for event in client.stream(asking()):
                    read += len(getattr(event, "delta", ""))
        return read

    assert ANSWER_BYTES * 0.9 < play(ask()) <= ANSWER_BYTES


@pytest.mark.parametrize("wire", ["openai_chat", "openai_responses", "anthropic"])
def test_arguments_without_end_are_given_up(wire: str) -> None:
    call = [ToolCallStart(id="c", name="go")]
    deltas = chain(call, repeat(ToolCallDelta(id="c", args_delta=BIG)))
    assert isinstance(failing(wire, Said(deltas)), AnswerTooLarge)


def huge_number(data: bytes) -> bytes:
    return b'{"x":%b,' % (b"9" * 100_000) + data[1:]


def a_list(data: bytes) -> bytes:
    return b"[" + data + b"]"


@EVERY_WIRE
@pytest.mark.parametrize("spoil", [break_json, deep, not_a_number, a_list, huge_number])
def test_an_event_that_is_no_json_is_malformed(wire: str, spoil: Callable[[bytes], bytes]) -> None:
    events = stream_of(wire, WHOLE)
    places = [at for at, event in enumerate(events) if event != b"data: [DONE]\n\n"]
    entries = [Sent(WHOLE, spoil=spoil, spoil_at=place) for place in places]

    async def ask() -> None:
        async with FakeModelServer(entries) as server, client_of(server.url, wire) as client:
            whole = heard(await whole_of(wire))
            for place in places:
                events, error = await outcome(client, asking())
                if spoil is huge_number and error is None:
                    # A number that nobody asks for does no harm.
                    assert heard(events) == whole, place
                else:
                    assert isinstance(error, MalformedAnswer), place

    play(ask())


@EVERY_WIRE
def test_text_that_is_no_utf8_is_malformed(wire: str) -> None:
    events = stream_of(wire, WHOLE)
    place = next(at for at, event in enumerate(events) if b"hello" in event)
    sent = Sent(WHOLE, spoil=lambda data: data.replace(b"hello", b"h\xffllo"), spoil_at=place)
    assert isinstance(failing(wire, sent), MalformedAnswer)


async def whole_of(wire: str) -> list[Any]:
    async with FakeModelServer([WHOLE]) as server, client_of(server.url, wire) as client:
        return await listen(client, asking())


@EVERY_WIRE
def test_keys_that_are_there_twice_do_no_harm(wire: str) -> None:
    count_of_events = len(stream_of(wire, WHOLE))
    entries = [Sent(WHOLE, spoil=double_fields, spoil_at=at) for at in range(count_of_events)]

    async def ask() -> None:
        whole = heard(await whole_of(wire))
        async with FakeModelServer(entries) as server, client_of(server.url, wire) as client:
            for _ in entries:
                events, error = await outcome(client, asking())
                assert heard(events) == whole if error is None else error.retryable

    play(ask())


VALUES: list[Any] = [None, [], {}, "", "x", -1, 2**70, 1.5, True, [[]], [None], {"a": {}}]


def variants(value: Any) -> Iterator[Any]:
    """The same JSON with something else in one place."""
    yield from VALUES
    match value:
        case dict():
            for name, field in value.items():
                yield {other: kept for other, kept in value.items() if other != name}
                yield from ({**value, name: changed} for changed in variants(field))
        case list():
            for at, item in enumerate(value):
                yield from ([*value[:at], changed, *value[at + 1 :]] for changed in variants(item))


@EVERY_WIRE
def test_no_event_of_any_shape_raises_another_error(wire: str) -> None:
    datas = [event.rpartition(b"data: ")[2].strip() for event in stream_of(wire, WHOLE)]
    tried = 0
    for at, data in enumerate(datas):
        if data == b"[DONE]":
            continue
        for changed in variants(json.loads(data)):
            tried += 1
            decoder = CODECS[wire]({}).decoder()
            try:
                for piece in (*datas[:at], msgspec.json.encode(changed), *datas[at + 1 :]):
                    decoder.take(piece)
                decoder.end()
            except ModelError:
                pass
    assert tried > 500


@EVERY_WIRE
def test_a_packed_answer_is_refused(wire: str) -> None:
    assert isinstance(failing(wire, Sent("hi", is_gzip=True)), MalformedAnswer)


@EVERY_WIRE
@pytest.mark.parametrize(
    "answer",
    [Silence(), Sent("hi", pause=lambda: asyncio.Event().wait())],
    ids=["no answer", "no body"],
)
def test_silence_is_a_timeout(wire: str, answer: Any) -> None:
    error = failing(wire, answer, timeout_ms=50)
    assert isinstance(error, ModelTimeout)
    assert error.retryable


@EVERY_WIRE
def test_the_body_of_an_error_is_read_in_part_only(wire: str) -> None:
    pieces = (b"no " * 300_000,) * 120
    error = failing(wire, HttpAnswer(500, lambda: pieces))
    assert isinstance(error, ProviderFailed)
    assert len(str(error)) < 1_000


@EVERY_WIRE
@pytest.mark.parametrize(
    "body", [b"", b"<html>It works!</html>", b'{"id":1}', b"\x00\xff" * 50, b"data:\n\ndata: \n\n"]
)
def test_a_body_that_is_no_stream_is_an_error(wire: str, body: bytes) -> None:
    async def ask() -> ModelError:
        answer = HttpAnswer(200, body)
        async with FakeModelServer([answer]) as server, client_of(server.url, wire) as client:
            return await drained(client)

    assert isinstance(play(ask()), StreamInterrupted | MalformedAnswer)


@EVERY_WIRE
def test_an_error_with_any_body_is_typed(wire: str) -> None:
    bodies = [b"", b"[]", b"[[]]", b"null", b"{", b'{"error":7}', b"[" * 50_000, b"\xff"]
    answers = [HttpAnswer(status, body) for status in (400, 418, 500, 599, 700) for body in bodies]
    answers += [HttpAnswer(204), HttpAnswer(304), HttpAnswer(206, b"data: {}\n\n")]

    async def ask() -> None:
        async with FakeModelServer(answers) as server, client_of(server.url, wire) as client:
            for _ in answers:
                assert (await drained(client)).code

    play(ask())


@EVERY_WIRE
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(wire: str, status: int) -> None:
    async def ask() -> ModelError:
        async with FakeModelServer(["stolen"]) as thief:
            away = HttpAnswer(status, headers=redirect(f"{thief.url}/v1/messages").headers)
            async with FakeModelServer([away]) as server, client_of(server.url, wire) as client:
                error = await drained(client)
            assert not thief.requests
            assert thief.open_connections == 0
            return error

    assert "stolen" not in str(play(ask()))


@asynccontextmanager
async def sending(answer: bytes) -> AsyncIterator[str]:
    """A server that says the same whatever it is asked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"
    finally:
        server.close()
        await server.wait_closed()


NO_HTTP = {
    "nothing": b"",
    "garbage": b"\x16\x03\x01garbage\r\n\r\n",
    "long header": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1_000_000 + b"\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000 + b"\r\n",
    "bad chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "bad length": b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
    "too short": b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\ndata: {",
    "bad status": b"HTTP/1.1 abc\r\n\r\n",
}


@EVERY_WIRE
@pytest.mark.parametrize("kind", NO_HTTP)
def test_what_is_no_http_is_a_transport_error(wire: str, kind: str) -> None:
    async def ask() -> ModelError:
        async with sending(NO_HTTP[kind]) as url, client_of(url, wire) as client:
            return await drained(client)

    error = play(ask())
    assert isinstance(error, TransportFailed | StreamInterrupted)
    assert error.retryable
    assert len(str(error)) < 1_000


@EVERY_WIRE
def test_nobody_there_is_a_transport_error(wire: str) -> None:
    async def ask() -> ModelError:
        async with FakeModelServer([]) as server:
            url = server.url
        async with client_of(url, wire) as client:
            return await drained(client)

    assert isinstance(play(ask()), TransportFailed)


@EVERY_WIRE
def test_a_reader_that_leaves_takes_its_connection_along(wire: str) -> None:
    async def ask() -> None:
        async with FakeModelServer([endless()]) as server, client_of(server.url, wire) as client:
            stream = client.stream(asking())
            await anext(stream)
            await stream.aclose()
            await server.all_closed()

    play(ask())


@EVERY_WIRE
def test_a_reader_that_is_cancelled_takes_its_connection_along(wire: str) -> None:
    async def ask() -> None:
        async with FakeModelServer([Silence()]) as server, client_of(server.url, wire) as client:
            reading = asyncio.ensure_future(listen(client, asking()))
            while not server.requests:
                await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await server.all_closed()

    play(ask())


@EVERY_WIRE
def test_a_good_answer_after_a_bad_one_is_read(wire: str) -> None:
    async def ask() -> None:
        answers = [Sent("bad", spoil=break_json), "good"]
        async with FakeModelServer(answers) as server, client_of(server.url, wire) as client:
            assert isinstance(await drained(client), MalformedAnswer)
            assert heard(await listen(client, asking())).text == "good"

    play(ask())


@EVERY_WIRE
def test_an_answer_that_comes_byte_by_byte_is_read(wire: str) -> None:
    async def ask() -> None:
        answers = [Sent(ANSWERS["calls"], chunk_bytes=1), ANSWERS["calls"]]
        async with FakeModelServer(answers) as server, client_of(server.url, wire) as client:
            assert await listen(client, asking()) == await listen(client, asking())

    play(ask())
