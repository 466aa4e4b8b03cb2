"""Connections that only cost: they are dropped, and nobody else notices."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from typing import Any

import aiohttp
import pytest
import uvicorn

from awaken import Agent, AgentRuntime
from awaken.server import ServerApp, connections
from awaken.server.connections import HEAD_BYTES, HttpConnections
from awaken.testing import Chunks, ScriptedModel
from awaken.transport.asgi import CONNECTION, App, Receive, Scope, Send

from .serving import post_stream

BODY = {"agentId": "a", "messages": [{"role": "user", "content": "go"}]}
MEBIBYTE = 1024 * 1024
LONG = Chunks(["x" * 20_000] * 120, delay_ms=4)


@asynccontextmanager
async def guarded(app: App) -> AsyncIterator[tuple[int, uvicorn.Server]]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        # Connections inherit it: what the kernel would take for a reader is small.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
        options = uvicorn.Config(
            app, http=HttpConnections(), log_level="warning", timeout_graceful_shutdown=2
        )
        server = uvicorn.Server(options)
        task = asyncio.create_task(server._serve([listener]))
        await until(lambda: server.started)
        try:
            yield listener.getsockname()[1], server
        finally:
            server.should_exit = True
            await asyncio.wait_for(task, 15)


def served(answers: list[Any]) -> ServerApp:
    return AgentRuntime([Agent("a", model=ScriptedModel(answers))]).asgi()


async def sent(port: int, data: bytes) -> socket.socket:
    """A client that sends something and never reads."""
    client = socket.socket()
    client.setblocking(False)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", port))
    await loop.sock_sendall(client, data)
    return client


def start_request() -> bytes:
    body = b'{"agentId": "a", "messages": [{"role": "user", "content": "go"}]}'
    head = f"POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def test_readers_that_never_read_are_dropped_and_others_read_on() -> None:
    async def scenario() -> None:
        app = served([LONG] * 7)
        held = [0]
        async with guarded(app) as (port, server), aiohttp.ClientSession() as session:
            watching = asyncio.create_task(watch_buffers(server, held))
            idle = [await sent(port, start_request()) for _ in range(5)]
            url = f"http://127.0.0.1:{port}/v1/runs"
            read = await asyncio.gather(*(post_stream(session, url, BODY) for _ in range(2)))
            for frames in read:
                texts = [it.data["delta"] for it in frames if it.data["event_type"] == "text_delta"]
                assert len("".join(texts)) == 2_400_000
                assert frames[-1].data["event_type"] == "run_finish"
            # They are still connected, and nothing is kept for them.
            await until(lambda: app.context.streams.in_use == 0)
            await until(lambda: len(server.server_state.connections) <= 2)
            watching.cancel()
            for client in idle:
                client.close()
            # What is written for one of them at most: a batch that was taken from its queue.
            assert max(held) <= len(idle) * 2 * MEBIBYTE

    asyncio.run(scenario())


async def watch_buffers(server: uvicorn.Server, held: list[int]) -> None:
    while True:
        held.append(
            sum(it.transport.get_write_buffer_size() for it in server.server_state.connections)  # type: ignore[attr-defined]
        )
        await asyncio.sleep(0.005)


def test_a_reader_that_stalls_is_dropped_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALL_S", 0.05)

    async def scenario() -> None:
        is_seen = asyncio.Event()

        async def answer(_: Any) -> Chunks:
            await is_seen.wait()
            return Chunks(["", "x" * 8_000_000, "y"], delay_ms=20)

        # One event, too long for what the connection can hold, and nothing to fall behind by.
        app = served([answer])
        async with guarded(app) as (port, server):
            with closing(await sent(port, start_request())):
                await until(lambda: app.context.streams.in_use == 1)
                is_seen.set()
                await until(lambda: app.context.streams.in_use == 0)
                await until(lambda: not server.server_state.connections)

    asyncio.run(scenario())


@pytest.mark.parametrize("is_last", [True, False], ids=["last request", "end of sending"])
def test_a_closing_connection_does_not_wait_forever_for_its_reader(
    monkeypatch: pytest.MonkeyPatch, *, is_last: bool
) -> None:
    monkeypatch.setattr(connections, "STALL_S", 0.05)

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        transport = scope["extensions"][CONNECTION]._connection.transport
        await send({"type": "http.response.start", "status": 200, "headers": []})
        # Some bytes more than the kernel takes, and too few to pause the app.
        while not transport.get_write_buffer_size():
            await send({"type": "http.response.body", "body": b"x" * 8000, "more_body": True})
        await send({"type": "http.response.body"})

    async def scenario() -> None:
        async with guarded(app) as (port, server):
            asked = b"connection: close\r\n" if is_last else b""
            with closing(await sent(port, b"GET / HTTP/1.1\r\n" + asked + b"\r\n")) as client:
                await until(lambda: server.server_state.total_requests == 1)
                if not is_last:
                    client.shutdown(socket.SHUT_WR)
                await until(lambda: not server.server_state.connections)

    asyncio.run(scenario())


def test_a_head_that_never_ends_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.05)

    async def scenario() -> None:
        async with guarded(served([])) as (port, server):
            for data in (b"", b"GET /health/live HTTP/1.1\r\nhost: loc"):
                with closing(await sent(port, data)) as client:
                    await dropped(client)
                    await until(lambda: not server.server_state.connections)

    asyncio.run(scenario())


async def dropped(client: socket.socket) -> None:
    """Wait until the server has ended a connection of which it had nothing to say."""
    with suppress(ConnectionError):
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 20) == b""


LIVE = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nx-long: " + b"x" * 2000


def test_a_second_request_of_a_connection_cannot_be_slow_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with guarded(served([])) as (port, server):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(LIVE + b"\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            monkeypatch.setattr(connections, "HEAD_S", 0.05)
            writer.write(LIVE)
            await until(lambda: not server.server_state.connections)
            writer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("asked", "more"),
    [
        (b"", b"\r\n"),
        (LIVE + b"\r\n\r\n", b"\r\n"),
        (LIVE + b"\r\ncontent-length: 100\r\n\r\n", b"x"),
    ],
    ids=["a blank line", "a blank line after a request", "a body that nobody reads"],
)
def test_what_is_no_request_does_not_hold_a_connection(
    monkeypatch: pytest.MonkeyPatch, asked: bytes, more: bytes
) -> None:
    def hasten() -> None:
        monkeypatch.setattr(connections, "HEAD_S", 0.2)

    async def scenario() -> None:
        async with guarded(served([])) as (port, server):
            if not asked:
                hasten()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            if asked:
                writer.write(asked)
                assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
                hasten()
            reading = asyncio.create_task(reader.read())
            # More of it gives no more time.
            while not reading.done():
                writer.write(more)
                await asyncio.wait({reading}, timeout=0.05)
            with suppress(ConnectionError):
                await reading
            await until(lambda: not server.server_state.connections)
            writer.close()

    async def bounded() -> None:
        await asyncio.wait_for(scenario(), 20)

    asyncio.run(bounded())


def test_a_request_after_a_blank_line_has_all_the_time_that_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Long enough to send a request, and shorter than the answer.
    monkeypatch.setattr(connections, "HEAD_S", 1.0)

    async def scenario() -> None:
        async with guarded(served([Chunks(["x"] * 30, delay_ms=40)])) as (port, server):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"\r\n")
            (connection,) = await connected(server)
            writer.write(start_request())
            read = await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 30)
            assert b"run_finish" in read
            assert not connection.transport.is_closing()
            writer.close()

    asyncio.run(scenario())


def test_many_short_heads_are_no_long_one() -> None:
    async def scenario() -> None:
        async with guarded(served([])) as (port, server):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            (connection,) = await connected(server)
            for _ in range(2 * HEAD_BYTES // len(LIVE)):
                writer.write(LIVE[:10])
                await until(lambda: connection._is_in_head)
                seen = connection._head_bytes + len(LIVE) - 10
                writer.write(LIVE[10:])
                await until(partial(has_seen, connection, seen))
                writer.write(b"\r\n\r\n")
                reply = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
                assert b" 200 " in reply
            writer.close()

    asyncio.run(scenario())


def has_seen(connection: Any, size: int) -> bool:
    return connection._head_bytes >= size


async def connected(server: uvicorn.Server) -> list[Any]:
    await until(lambda: bool(server.server_state.connections))
    return list(server.server_state.connections)


@pytest.mark.parametrize("piece", [b"x-a: 1\r\n", b"a" * 1000])
def test_a_head_without_bounds_is_cut(piece: bytes) -> None:
    async def scenario() -> None:
        async with guarded(served([])) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nx-long: ")
            try:
                for _ in range(8 * HEAD_BYTES // len(piece)):
                    writer.write(piece)
                    await writer.drain()
                reply = await asyncio.wait_for(reader.read(), 20)
            except ConnectionError:
                # It was cut while more was being sent.
                return
            finally:
                writer.close()
            assert reply.split(b" ")[1] in (b"431", b"400")

    asyncio.run(scenario())


def test_a_long_body_is_no_long_head() -> None:
    async def scenario() -> None:
        app = served(["Hello."])
        text = "x" * (4 * HEAD_BYTES)
        body = {"agentId": "a", "messages": [{"role": "user", "content": text}]}
        async with guarded(app) as (port, _), aiohttp.ClientSession() as session:
            frames = await post_stream(session, f"http://127.0.0.1:{port}/v1/runs", body)
            assert frames[-1].data["event_type"] == "run_finish"
            for _ in range(3):
                async with session.get(f"http://127.0.0.1:{port}/health/live") as reply:
                    assert reply.status == 200

    asyncio.run(scenario())


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)
