"""What a connection does to an answer: it is kept, it breaks, it leads to the wrong place."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from awaken.contracts.messages.content import Text, Thinking
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.messages.message import assistant
from awaken.contracts.models.errors import (
    ContentFiltered,
    ModelError,
    ModelNotFound,
    ModelTimeout,
    Overloaded,
    ProviderUnusable,
    StreamInterrupted,
    TransportFailed,
    Unauthorized,
)
from awaken.contracts.models.inference import Alive, ModelEvent, StopReason
from awaken.testing.model_server import FakeModelServer, HttpAnswer, Silence, stream_of

from .formats import CODECS, asking, client_of, heard, listen, outcome, play, sent
from .test_hostile import sending

EVERY_WIRE = pytest.mark.parametrize("wire", CODECS)
PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "no_proxy")
STREAM = {"content-type": "text/event-stream"}
BROKEN_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 50000\r\n\r\n"
KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


def error_of(wire: str, answer: Any, **options: Any) -> ModelError:
    async def ask() -> ModelError | None:
        async with (
            FakeModelServer([answer]) as server,
            client_of(server.url, wire, key=KEY, **options) as client,
        ):
            return (await outcome(client, asking()))[1]

    error = play(ask())
    assert error is not None
    assert KEY not in str(error)
    return error


FINISHES = {
    "openai_chat": b'"finish_reason":"stop"',
    "openai_responses": b"response.completed",
    "anthropic": b'"stop_reason":"end_turn"',
    "gemini": b'"finishReason":"STOP"',
}


@EVERY_WIRE
@pytest.mark.parametrize("is_whole", [True, False], ids=["ended", "broken"])
def test_an_answer_that_came_to_its_end_is_whole_however_the_connection_ended(
    wire: str, is_whole: bool
) -> None:
    events = stream_of(wire, "Hello.")
    last = next(at for at, event in enumerate(events) if FINISHES[wire] in event)
    body = b"".join(events[: last + 1])
    head = BROKEN_HEAD.replace(b"50000", b"%d" % (len(body) if is_whole else 50_000))

    async def ask() -> tuple[list[ModelEvent], ModelError | None]:
        async with sending(head + body) as url, client_of(url, wire) as client:
            return await outcome(client, asking())

    found, error = play(ask())
    assert error is None
    assert heard(found).text == "Hello."
    assert heard(found).stop is StopReason.END_TURN


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("content_filter", ContentFiltered), ("insufficient_system_resource", Overloaded)],
)
def test_what_the_vendor_said_tells_more_than_a_broken_connection(
    reason: str, expected: type[ModelError]
) -> None:
    said = b'data: {"choices":[{"delta":{},"finish_reason":"%b"}]}\n\n' % reason.encode()

    async def ask() -> ModelError | None:
        async with sending(BROKEN_HEAD + said) as url, client_of(url, "openai_chat") as client:
            return (await outcome(client, asking()))[1]

    assert type(play(ask())) is expected


@EVERY_WIRE
def test_a_silence_after_the_end_of_an_answer_is_no_failure(wire: str) -> None:
    pieces = b"".join(stream_of(wire, "Hello.")).removesuffix(b"data: [DONE]\n\n")

    async def ask() -> list[ModelEvent]:
        async with (
            holding(BROKEN_HEAD + pieces) as url,
            client_of(url, wire, timeout_ms=1000) as client,
        ):
            return await listen(client, asking())

    assert heard(play(ask())).text == "Hello."


@asynccontextmanager
async def holding(answer: bytes, *, is_mute: bool = False) -> AsyncIterator[str]:
    """A server that says something and then neither goes on nor hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not is_mute:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
        await asyncio.Event().wait()

    async with served(serve) as url:
        yield url


@asynccontextmanager
async def served(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """A server of our own: what it sends may depend on what the client has read."""
    tasks: set[Any] = set()

    async def served_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        with suppress(asyncio.CancelledError):
            await serve(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(served_one, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@EVERY_WIRE
def test_a_connection_is_used_again_though_the_end_of_its_body_comes_late(wire: str) -> None:
    """Vendors send the last event and the end of the body in packets of their own."""
    ports: set[int] = set()
    answer = b"".join(stream_of(wire, "Hello."))
    head = BROKEN_HEAD.replace(b"content-length: 50000", b"transfer-encoding: chunked")

    async def ask() -> None:
        heard_it = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ports.add(writer.get_extra_info("peername")[1])
            for _ in range(3):
                request = await reader.readuntil(b"\r\n\r\n")
                length = int(request.lower().partition(b"content-length:")[2].split()[0])
                await reader.readexactly(length)
                writer.write(head + b"%x\r\n%b\r\n" % (len(answer), answer))
                await heard_it.wait()
                heard_it.clear()
                writer.write(b"0\r\n\r\n")

        async with served(serve) as url, client_of(url, wire) as client:
            for _ in range(3):
                async for event in client.stream(asking()):
                    if event == TextDelta(delta="Hello."):
                        heard_it.set()

    play(ask())
    assert len(ports) == 1


@EVERY_WIRE
def test_bytes_that_say_nothing_are_a_sign_of_life(wire: str) -> None:
    pieces = [b": still working\n\n", b"event: ping\n\n", b"".join(stream_of(wire, "Hello."))]

    async def ask() -> list[ModelEvent]:
        read, events = asyncio.Event(), list[ModelEvent]()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            for piece in pieces:
                writer.write(piece)
                await read.wait()
                read.clear()

        async with served(serve) as url, client_of(url, wire) as client:
            async for event in client.stream(asking()):
                events.append(event)
                read.set()
        return events

    events = play(ask())
    assert events[:2] == [Alive(), Alive()]
    assert Alive() not in events[2:]
    assert heard(events).text == "Hello."


@EVERY_WIRE
def test_an_error_that_comes_in_pieces_is_read_whole(wire: str) -> None:
    body = b'{"error":{"message":"no","type":"authentication_error","code":"x"}}'
    head = b"HTTP/1.1 400 No\r\ncontent-length: %d\r\n\r\n" % len(body)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + body[:40])
        # Many turns of the loop: the client has read the first piece by then.
        for _ in range(100):
            await asyncio.sleep(0)
        writer.write(body[40:])

    async def ask() -> ModelError | None:
        async with served(serve) as url, client_of(url, wire) as client:
            return (await outcome(client, asking()))[1]

    assert type(play(ask())) is Unauthorized


@EVERY_WIRE
def test_a_web_page_is_not_asked_again(wire: str) -> None:
    page = HttpAnswer(200, b"<html>Welcome</html>", {"content-type": "text/html; charset=utf-8"})
    error = error_of(wire, page)
    assert type(error) is ProviderUnusable
    assert not error.retryable
    assert "is base_url right?" in str(error)
    assert "http://127.0.0.1:" in str(error)
    assert "?" not in str(error).partition(" answers")[0]


@EVERY_WIRE
def test_a_failure_with_a_good_status_is_what_it_says(wire: str) -> None:
    body = b'{"error":{"message":"bad key","type":"authentication_error"}}'
    json = {"content-type": "application/json"}
    assert type(error_of(wire, HttpAnswer(200, body, json))) is Unauthorized


@EVERY_WIRE
@pytest.mark.parametrize(
    "body", [b'{"id":"x","error":null,"choices":[]}', b'{"type":"message","content":[]}', b"[]"]
)
def test_an_answer_that_is_not_streamed_is_not_asked_for_again(wire: str, body: bytes) -> None:
    error = error_of(wire, HttpAnswer(200, body, {"content-type": "application/json"}))
    assert type(error) is ProviderUnusable
    assert "JSON" in str(error)


@EVERY_WIRE
@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("https://user:pw@other.example:99/x?key=sk-1", "to https://other.example:99 (HTTP 308)"),
        ("/v2/x", "to http://127.0.0.1:"),
        ("http://[bad", "to an address that is none"),
        ("", "HTTP 308"),
    ],
)
def test_a_redirect_names_where_it_leads_and_is_final(wire: str, location: str, words: str) -> None:
    error = error_of(wire, HttpAnswer(308, headers={"location": location}))
    assert type(error) is ProviderUnusable
    assert not error.retryable
    assert words in str(error)
    assert "base_url" in str(error)
    assert "pw" not in str(error)
    assert "sk-1" not in str(error)


@EVERY_WIRE
def test_a_path_that_a_server_does_not_have_is_named(wire: str) -> None:
    error = error_of(wire, HttpAnswer(404, b"404 page not found"))
    assert type(error) is ModelNotFound
    (path,) = {word for word in str(error).split() if word.startswith("/")}
    assert path.endswith(
        {
            "openai_chat": "/chat/completions:",
            "openai_responses": "/responses:",
            "anthropic": "/messages:",
            "gemini": ":streamGenerateContent:",
        }[wire]
    )


@pytest.mark.parametrize("proxy", ["http://user:hunter2@[bad", "http://user:hunter2@host:nan"])
def test_a_proxy_that_is_none_is_a_setting_to_mend(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    error = error_of("openai_chat", "never asked")
    assert type(error) is ProviderUnusable
    assert "proxy" in str(error)
    assert "hunter2" not in str(error)


def test_an_address_that_no_name_server_takes_is_a_setting_to_mend() -> None:
    async def ask() -> ModelError | None:
        async with client_of("http://a..b", "openai_chat") as client:
            return (await outcome(client, asking()))[1]

    error = play(ask())
    assert type(error) is ProviderUnusable
    assert "http://a..b" in str(error)


def test_a_proxy_is_used_and_a_login_of_netrc_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login somebody password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    async def ask() -> dict[str, str]:
        async with FakeModelServer(["Hello."]) as server:
            monkeypatch.setenv("HTTP_PROXY", server.url)
            async with client_of("http://elsewhere.invalid", "openai_chat", key=KEY) as client:
                assert heard(await listen(client, asking())).text == "Hello."
            return dict(server.requests[0].headers)

    headers = play(ask())
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["host"] == "elsewhere.invalid"
    assert "proxy-authorization" not in headers


def test_no_proxy_is_used_for_what_is_excepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert sent("openai_chat", asking()).path.endswith("/chat/completions")


def test_an_address_that_does_not_answer_the_door_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection is made, and then nobody speaks TLS."""
    monkeypatch.setattr("awaken.providers.http.client.CONNECT_S", 0.05)

    async def ask() -> ModelError | None:
        async with holding(b"", is_mute=True) as url:
            async with client_of(url.replace("http:", "https:"), "openai_chat") as client:
                error = (await outcome(client, asking()))[1]
            assert url.removeprefix("http") in str(error)
            return error

    error = play(ask())
    assert type(error) is TransportFailed
    assert "could not be reached" in str(error)


@EVERY_WIRE
def test_a_server_that_is_not_running_is_named_with_the_way_out(wire: str) -> None:
    async def ask() -> ModelError | None:
        async with FakeModelServer([]) as server:
            url = server.url
        async with client_of(url, wire) as client:
            return (await outcome(client, asking()))[1]

    error = play(ask())
    assert type(error) is TransportFailed
    assert "is it running" in str(error)
    assert "base_url" in str(error)


def test_a_silent_server_is_still_a_timeout() -> None:
    assert type(error_of("openai_chat", Silence(), timeout_ms=50)) is ModelTimeout


def test_an_answer_without_an_end_is_still_interrupted() -> None:
    assert type(error_of("openai_chat", HttpAnswer(200, b": hi\n\n", STREAM))) is StreamInterrupted


def test_details_of_the_reasoning_go_back_only_to_who_wants_them() -> None:
    details = '[{"type":"reasoning.text","text":"Hm","signature":"s"}]'
    blocks = [
        Thinking(thinking="Hm", signature=details, origin="openai_chat"),
        Text(text="Hi"),
        Thinking(thinking="", signature='[{"data":"e"}]', origin="openai_chat"),
        Thinking(thinking="no", signature="x", origin="anthropic"),
    ]
    request = asking(assistant(blocks))
    (message,) = sent("openai_chat", request, send_reasoning_details=True).body["messages"]
    assert message["reasoning_details"] == [
        {"type": "reasoning.text", "text": "Hm", "signature": "s"},
        {"data": "e"},
    ]
    (message,) = sent("openai_chat", request).body["messages"]
    assert "reasoning_details" not in message
