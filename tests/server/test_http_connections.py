"""HTTP/1.1 as `awaken serve` speaks it: what clients send, in whatever pieces, and what they get.

The limits of time and size are in `test_limits_of_connections.py`.
"""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn

from awaken import Agent, AgentRuntime
from awaken.server import connections
from awaken.server.connections import HttpConnection, HttpConnections
from awaken.server.http_cycle import HttpCycle
from awaken.testing import ScriptedModel
from awaken.transport.asgi import CONNECTION, App, Message, Receive, Scope, Send

PATIENCE_S = 10


class Client:
    """A connection on which a test sends bytes and reads replies."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def reply(self) -> tuple[bytes, bytes]:
        """The head and the body of the next reply."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length: "):
                return head, await self.reader.readexactly(int(line[16:]))
        return head, await self.reader.readuntil(b"0\r\n\r\n") if b"chunked" in head else b""

    async def rest(self) -> bytes:
        """All that comes until the server closes the connection."""
        return await asyncio.wait_for(self.reader.read(), PATIENCE_S)


@asynccontextmanager
async def connected(app: App, **options: Any) -> AsyncIterator[tuple[Client, uvicorn.Server]]:
    """A client of a server on the loopback."""
    http: Any = HttpConnections()
    config = uvicorn.Config(app, http=http, lifespan="off", port=0, log_level="error", **options)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve())
    async with asyncio.timeout(PATIENCE_S):
        while not server.started:
            assert not serving.done()
            await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer), server
    finally:
        writer.close()
        server.should_exit = True
        await asyncio.wait_for(serving, PATIENCE_S)


def request(path: str = "/", *lines: str, body: bytes = b"", method: str = "POST") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}", *lines]
    return "\r\n".join((*head, "", "")).encode() + body


async def read_body(receive: Receive) -> bytes:
    body, has_more = b"", True
    while has_more:
        message = await receive()
        assert message["type"] == "http.request", message
        body, has_more = body + message["body"], message["more_body"]
    return body


async def answer(send: Send, body: bytes, status: int = 200, *headers: tuple[bytes, bytes]) -> None:
    start = [(b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with what the app was given."""
    body = await read_body(receive)
    said = {
        "method": scope["method"],
        "path": scope["path"],
        "query": scope["query_string"].decode(),
        "client": scope["client"][0],
        "scheme": scope["scheme"],
        "body": body.decode(),
    }
    await answer(send, json.dumps(said).encode())


def play(app: App, scenario: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with connected(app, **options) as (client, _):
            await scenario(client)

    asyncio.run(run())


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_request_may_come_in_any_pieces(size: int) -> None:
    async def scenario(client: Client) -> None:
        data = request("/a%20b?q=1", body=b"hello")
        for start in range(0, len(data), size):
            client.send(data[start : start + size])
            await asyncio.sleep(0)
        _, body = await client.reply()
        found = json.loads(body)
        assert (found["path"], found["query"], found["body"]) == ("/a b", "q=1", "hello")

    play(echo, scenario)


def test_requests_that_do_not_wait_are_answered_in_order() -> None:
    async def scenario(client: Client) -> None:
        client.send(b"".join(request(f"/{number}") for number in range(5)))
        client.send(request("/5", body=b"x" * 300_000))
        for number in range(6):
            _, body = await client.reply()
            assert json.loads(body)["path"] == f"/{number}"
        assert len(json.loads(body)["body"]) == 300_000

    play(echo, scenario)


def test_a_body_in_chunks_is_joined_and_a_reply_without_length_is_sent_in_chunks() -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (body, b"", b"end"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})

    async def scenario(client: Client) -> None:
        client.send(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        client.send(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        _, body = await client.reply()
        assert body == b"5\r\nabcde\r\n3\r\nend\r\n0\r\n\r\n"

    play(app, scenario)


def test_fields_after_a_body_are_read_and_not_used() -> None:
    async def scenario(client: Client) -> None:
        client.send(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        client.send(b"2\r\nhi\r\n0\r\nx-checksum: 1\r\n\r\n" + request("/next"))
        _, body = await client.reply()
        assert json.loads(body)["body"] == "hi"
        _, body = await client.reply()
        assert json.loads(body)["path"] == "/next"

    play(echo, scenario)


@pytest.mark.parametrize("rest", [b"0\r\nx: ", b"1;"], ids=["fields", "extension of a chunk"])
def test_what_is_no_part_of_a_body_has_a_limit(rest: bytes) -> None:
    async def scenario(client: Client) -> None:
        client.send(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        client.send(b"2\r\nhi\r\n" + rest)
        piece = b"a" * 1024
        with suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE_S):
                while not client.reader.at_eof():
                    client.send(piece)
                    await client.writer.drain()

    play(echo, scenario)


def test_the_parts_of_a_body_are_not_copied_with_each_other_part() -> None:
    async def scenario() -> None:
        found: list[Any] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await until(lambda: not scope["extensions"][CONNECTION]._has_more_body)
            found.append(scope["extensions"][CONNECTION]._body)
            await echo(scope, receive, send)

        async with connected(app) as (client, _):
            client.send(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
            client.send(b"1\r\nx\r\n" * 1000 + b"0\r\n\r\n")
            _, body = await client.reply()
            assert json.loads(body)["body"] == "x" * 1000
        assert [type(it) for it in found] == [bytearray]

    asyncio.run(scenario())


def test_a_client_is_not_slow_while_nothing_is_taken_from_it() -> None:
    async def scenario() -> None:
        release = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await release.wait()
            await echo(scope, receive, send)

        async with connected(app) as (client, server):
            last = request("/2")
            client.send(request("/0") + request("/1") + last[:20])
            await until(lambda: bool(server.server_state.connections))
            connection: Any = next(iter(server.server_state.connections))
            await until(lambda: connection._is_in_head)
            assert connection._is_reading_paused
            assert connection not in connection._shared.watchdog._moments
            release.set()
            for number in range(2):
                _, body = await client.reply()
                assert json.loads(body)["path"] == f"/{number}"
            assert connection in connection._shared.watchdog._moments
            client.send(last[20:])
            _, body = await client.reply()
            assert json.loads(body)["path"] == "/2"

    asyncio.run(scenario())


def test_a_client_that_asks_for_it_is_told_to_send_its_body() -> None:
    async def scenario(client: Client) -> None:
        client.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n")
        client.send(b"expect: 100-continue\r\n\r\n")
        head, _ = await client.reply()
        assert head == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"hi")
        _, body = await client.reply()
        assert json.loads(body)["body"] == "hi"

    play(echo, scenario)


def test_a_request_is_not_taken_for_the_body_that_its_client_was_not_told_to_send() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            await answer(send, b"no", 413)
        else:
            await echo(scope, receive, send)

    async def scenario(client: Client) -> None:
        client.send(b"POST / HTTP/1.1\r\ncontent-length: 200\r\nexpect: 100-continue\r\n\r\n")
        head, _ = await client.reply()
        assert head.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close\r\n" in head
        assert await client.rest() == b""

    play(app, scenario)


@pytest.mark.parametrize(
    "asked",
    [
        request("/", "connection: close", method="GET"),
        b"GET / HTTP/1.0\r\nhost: a\r\n\r\n",
        request("/", "connection: upgrade", "upgrade: h2c", method="GET"),
    ],
    ids=["close", "1.0", "upgrade"],
)
def test_nothing_is_read_after_the_last_request(asked: bytes) -> None:
    async def scenario(client: Client) -> None:
        client.send(asked + b"GET /second HTTP/1.1\r\nhost: a\r\n\r\n")
        reply = await client.rest()
        assert reply.count(b"HTTP/1.1 200 OK") == 1
        assert b"connection: close" in reply

    play(echo, scenario)


@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize(
    "framed",
    [
        b"content-length: 5\r\n\r\nhello",
        b"transfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nx: y\r\n\r\n",
    ],
    ids=["length", "chunks"],
)
def test_a_request_that_asks_for_an_upgrade_keeps_its_body(framed: bytes, size: int) -> None:
    """As `curl --http2` and the HTTP client of Java send it."""

    async def scenario(client: Client) -> None:
        head = b"POST / HTTP/1.1\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\n"
        data = head + framed
        for start in range(0, len(data), size):
            client.send(data[start : start + size])
            await asyncio.sleep(0)
        head, body = await client.reply()
        assert json.loads(body)["body"] == "hello"
        assert b"connection: close" in head
        assert await client.rest() == b""

    play(echo, scenario)


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n"])
def test_what_is_no_request_is_refused(data: bytes) -> None:
    async def scenario(client: Client) -> None:
        client.send(data)
        assert (await client.rest()).startswith(b"HTTP/1.1 400 Bad Request\r\n")

    play(echo, scenario)


def test_a_broken_body_ends_a_reply_that_has_begun_without_a_second_one() -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    async def scenario(client: Client) -> None:
        client.send(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        await client.reader.readuntil(b"begun\r\n")
        client.send(b"nonsense\r\n")
        assert await client.rest() == b""

    play(app, scenario)


def test_a_reply_to_head_has_no_body() -> None:
    async def scenario(client: Client) -> None:
        client.send(request(method="HEAD"))
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert b"content-length: " in head
        client.send(request("/next"))
        _, body = await client.reply()
        assert json.loads(body)["path"] == "/next"

    play(echo, scenario)


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\0b"])
def test_a_header_cannot_be_smuggled_into_a_reply(value: bytes) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await answer(send, b"", 200, (b"x-thread-id", value))

    async def scenario(client: Client) -> None:
        client.send(request())
        reply = await client.rest()
        assert reply.startswith(b"HTTP/1.1 500 ")
        assert b"set-cookie" not in reply

    play(app, scenario)


def test_an_app_that_fails_is_answered_for() -> None:
    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["path"] == "/begun":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("no")

    async def scenario(client: Client) -> None:
        client.send(request())
        assert (await client.rest()).endswith(b"\r\n\r\nInternal Server Error")

    async def begun(client: Client) -> None:
        client.send(request("/begun"))
        reply = await client.rest()
        assert reply.startswith(b"HTTP/1.1 200 ")
        assert reply.endswith(b"\r\n\r\n")

    play(app, scenario)
    play(app, begun)


@pytest.mark.parametrize(("trusted", "client_ip"), [("127.0.0.1", "7.7.7.7"), ("9.9.9.9", None)])
def test_headers_of_a_proxy_count_if_it_is_trusted(trusted: str, client_ip: str | None) -> None:
    async def scenario(client: Client) -> None:
        client.send(request("/", "x-forwarded-for: 7.7.7.7", "x-forwarded-proto: https"))
        _, body = await client.reply()
        found = json.loads(body)
        assert found["client"] == (client_ip or "127.0.0.1")
        assert found["scheme"] == ("https" if client_ip else "http")
        client.send(request())
        assert json.loads((await client.reply())[1])["client"] == "127.0.0.1"

    play(echo, scenario, forwarded_allow_ips=trusted)


def test_an_idle_connection_is_closed_and_one_that_is_served_has_no_limit() -> None:
    async def scenario() -> None:
        limited: list[bool] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            (connection,) = server.server_state.connections
            limited.append(connection in connection._shared.watchdog._moments)  # type: ignore[attr-defined]
            await echo(scope, receive, send)

        async with connected(app, timeout_keep_alive=0.05) as (client, server):
            for _ in range(2):
                client.send(request())
                await client.reply()
            assert await client.rest() == b""
        assert limited == [False, False]

    asyncio.run(scenario())


def test_an_app_is_told_once_that_its_client_is_gone() -> None:
    told: list[str] = []

    async def scenario() -> None:
        gone = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            def leave() -> None:
                told.append("called")
                gone.set()

            await read_body(receive)
            scope["extensions"][CONNECTION].watch_disconnect(leave)
            told.append((await receive())["type"])
            await gone.wait()
            await answer(send, b"is not sent")

        async with connected(app) as (client, server):
            client.send(request())
            client.writer.transport.abort()
            async with asyncio.timeout(PATIENCE_S):
                await gone.wait()
                while server.server_state.tasks:
                    await asyncio.sleep(0.005)
            assert not server.server_state.connections

    asyncio.run(scenario())
    assert sorted(told) == ["called", "http.disconnect"]


def test_an_app_that_begins_to_watch_too_late_is_told_at_once() -> None:
    async def scenario() -> None:
        told = asyncio.Event()

        async def app(scope: Scope, receive: Receive, _send: Send) -> None:
            await read_body(receive)
            assert (await receive())["type"] == "http.disconnect"
            scope["extensions"][CONNECTION].watch_disconnect(told.set)

        async with connected(app) as (client, _):
            client.send(request())
            client.writer.transport.abort()
            await asyncio.wait_for(told.wait(), PATIENCE_S)

    asyncio.run(scenario())


def test_a_large_body_waits_for_the_app() -> None:
    async def scenario() -> None:
        read, release = [0], asyncio.Event()

        async def app(_scope: Scope, receive: Receive, send: Send) -> None:
            await release.wait()
            message: Message = {"more_body": True}
            while message["more_body"]:
                message = await receive()
                read.append(len(message["body"]))
            await answer(send, b"")

        async with connected(app) as (client, server):
            client.send(request(body=b"x" * 5_000_000))
            await until(lambda: bool(server.server_state.connections))
            (connection,) = server.server_state.connections
            await until(lambda: connection._is_reading_paused)  # type: ignore[attr-defined]
            release.set()
            await client.reply()
        assert sum(read) == 5_000_000
        assert max(read) < connections.BODY_BYTES + 1024 * 1024

    asyncio.run(scenario())


def test_a_connection_leaves_no_garbage() -> None:
    async def scenario() -> None:
        async with connected(echo) as (client, server):
            gc.collect()
            gc.disable()
            try:
                client.send(request())
                await client.reply()
                assert count(HttpConnection) == 1
                client.writer.transport.abort()
                await until(lambda: not server.server_state.connections)
                await until(lambda: count(HttpConnection) + count(HttpCycle) == 0)
            finally:
                gc.enable()

    asyncio.run(scenario())


def test_a_silent_stream_keeps_no_parser_no_timer_no_request_and_no_second_task() -> None:
    async def scenario() -> None:
        begun, release = asyncio.Event(), asyncio.Event()

        async def wait(_: Any) -> str:
            begun.set()
            await release.wait()
            return "done"

        app: Any = AgentRuntime([Agent("a", model=ScriptedModel([wait]))]).asgi()
        asked = {"agent_id": "a", "messages": [{"role": "user", "content": "go"}]}
        async with connected(app) as (client, server):
            client.send(request("/v1/runs", body=json.dumps(asked).encode()))
            await asyncio.wait_for(begun.wait(), PATIENCE_S)
            await asyncio.wait_for(client.reader.readuntil(b"run_start"), PATIENCE_S)
            connection: Any = next(iter(server.server_state.connections))
            assert connection._parser is None
            assert connection not in connection._shared.watchdog._moments
            dicts = [it for it in gc.get_objects() if type(it) is dict]
            assert not [it for it in dicts if it.get("raw_path") == b"/v1/runs"]
            assert connection._served._news is None, "a task waits for the client"
            release.set()
            assert b"run_finish" in await client.reader.readuntil(b"0\r\n\r\n")

    asyncio.run(scenario())


def count(kind: type) -> int:
    return sum(type(it) is kind for it in gc.get_objects())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)
