"""A peer that answers over A2A as badly as a test wants it to: HTTP by hand, on the loopback."""

import asyncio
import json
import socket
import struct
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .a2a_peers import task

Reply = Callable[["Asked"], Awaitable[None]]
ELSEWHERE = "elsewhere"
"""Stands for the address of another server, which must never hear of anything."""
CARD = "/.well-known/agent-card.json"
_METHODS = {
    "SendMessage": "send",
    "GetTask": "get",
    "ListTasks": "list",
    "CancelTask": "cancel",
    "SubscribeToTask": "subscribe",
}


@dataclass
class Asked:
    """One request, and the ways to answer it."""

    operation: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    count: int
    """How often this operation has been asked for, from one."""
    peer: "HostilePeer"
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def raw(self, *pieces: bytes) -> None:
        """Write bytes as they are."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def whole(
        self, body: bytes, status: int = 200, kind: str = "application/json", **headers: str
    ) -> None:
        """A whole answer, with its length."""
        await self.raw(head(status, kind, content_length=str(len(body)), **headers) + body)

    async def result(self, value: Any) -> None:
        """The value that was asked for, over the binding by which it was."""
        await self.whole(json.dumps(self.wrapped(value)).encode())

    async def begin_stream(self) -> None:
        """The head of a stream, which ends with its connection."""
        await self.raw(head(200, "text/event-stream", connection="close"))

    async def events(self, *items: Any) -> None:
        """Events of a stream that has begun."""
        for item in items:
            await self.raw(b"data: " + json.dumps(self.wrapped(item)).encode() + b"\n\n")

    def wrapped(self, value: Any) -> Any:
        """The value inside of a JSON-RPC answer, if that is how it was asked for."""
        if not isinstance(self.body, dict) or "jsonrpc" not in self.body:
            return value
        return {"jsonrpc": "2.0", "id": self.body["id"], "result": value}

    async def hang(self) -> None:
        """Say nothing more until the other side goes."""
        while await self.reader.read(65536):
            pass

    def end(self) -> None:
        """Close the connection in good order."""
        self.writer.close()

    def reset(self) -> None:
        """Break the connection."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


class HostilePeer:
    """Answers each operation as it was told to, and keeps what it was asked."""

    def __init__(self, replies: Mapping[str, Reply], rpc: bool = False) -> None:
        self.replies: dict[str, Reply] = {**USUAL, **({"card": rpc_card} if rpc else {}), **replies}
        self.asked: list[Asked] = []
        self.url = ""
        self.elsewhere = ""
        """Another server, which redirects and cards point to."""
        self._heard: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._connections: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "HostilePeer":
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0, limit=1 << 20)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    def operations(self) -> list[str]:
        """What it was asked for, the card left out."""
        return [it.operation for it in self.asked if it.operation != "card"]

    async def heard(self, operation: str) -> None:
        """Return once it has been asked for an operation."""
        async with asyncio.timeout(20):
            await self._heard[operation].wait()

    async def is_alone(self) -> bool:
        """Whether nobody is connected any more; waits a moment for those who go."""
        if self._connections:
            await asyncio.wait(self._connections, timeout=5)
        return all(it.done() for it in self._connections)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        current = asyncio.current_task()
        assert current is not None
        self._connections.add(current)
        current.add_done_callback(self._connections.discard)
        try:
            while not writer.is_closing():
                asked = await self._read(reader, writer)
                self.asked.append(asked)
                self._heard[asked.operation].set()
                await self.replies.get(asked.operation, missing)(asked)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ")
        named = (line.partition(": ") for line in lines[1:] if line)
        headers = {name.lower(): value for name, _, value in named}
        sent = await reader.readexactly(int(headers.get("content-length", "0")))
        body = json.loads(sent) if sent else None
        operation = _operation(path, body)
        count = 1 + sum(it.operation == operation for it in self.asked)
        return Asked(operation, method, path, headers, body, count, self, reader, writer)


def _operation(path: str, body: Any) -> str:
    place = path.partition("?")[0]
    if place == "/rpc":
        return _METHODS[body["method"]]
    if place.startswith("/tasks/"):
        verb = place.rpartition(":")[2]
        return verb if verb in ("cancel", "subscribe") else "get"
    return {CARD: "card", "/message:send": "send", "/tasks": "list"}.get(place, place)


def head(status: int, kind: str, **headers: str) -> bytes:
    """The head of an answer."""
    named = {"content-type": kind, **{k.replace("_", "-"): v for k, v in headers.items()}}
    lines = [f"HTTP/1.1 {status} Hm", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


# --- ways to answer


def result(value: Any) -> Reply:
    """The value that was asked for."""
    return lambda asked: asked.result(value)


def whole(body: bytes, status: int = 200, kind: str = "application/json", **headers: str) -> Reply:
    """These bytes."""
    return lambda asked: asked.whole(body, status, kind, **headers)


def document(value: Any, status: int = 200) -> Reply:
    """This JSON, whatever the binding is."""
    return whole(json.dumps(value).encode(), status)


def stream(*items: Any) -> Reply:
    """These events, and the end of the stream."""

    async def reply(asked: Asked) -> None:
        await asked.begin_stream()
        await asked.events(*items)
        asked.end()

    return reply


def flooding(*, first: bytes, again: bytes) -> Reply:
    """A beginning, and then the same without end."""

    async def reply(asked: Asked) -> None:
        await asked.raw(first)
        while True:
            await asked.raw(again)

    return reply


def redirect(status: int, place: str) -> Reply:
    """A redirect, which leaves our origin or not."""

    async def reply(asked: Asked) -> None:
        found = asked.peer.elsewhere + asked.path if place == ELSEWHERE else place
        await asked.whole(b"", status, location=found)

    return reply


def dripping(*, first: bytes, again: bytes, every_s: float = 0.02) -> Reply:
    """A beginning, and then the same, slowly, without end."""

    async def reply(asked: Asked) -> None:
        await asked.raw(first)
        while not asked.writer.is_closing():
            await asked.raw(again)
            with suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    await asked.reader.read(1)
                    return

    return reply


def then(*replies: Reply) -> Reply:
    """One after the other; the last one stays."""
    return lambda asked: replies[min(asked.count, len(replies)) - 1](asked)


def turns_about(*replies: Reply) -> Reply:
    """One after the other, over and over."""
    return lambda asked: replies[(asked.count - 1) % len(replies)](asked)


def raw(*pieces: bytes, end: str = "end") -> Reply:
    """Bytes as they are; then the end of the connection, its breaking, or nothing."""

    async def reply(asked: Asked) -> None:
        await asked.raw(*pieces)
        if end == "hang":
            await asked.hang()
        elif end == "reset":
            asked.reset()
        else:
            asked.end()

    return reply


async def hang(asked: Asked) -> None:
    """No answer at all."""
    await asked.hang()


async def reset(asked: Asked) -> None:
    """A connection that breaks."""
    asked.reset()


async def missing(asked: Asked) -> None:
    """Nothing is here."""
    await asked.whole(b"", 404)


def card_of(binding: str, url: str | None = None, version: str = "1.0", **more: Any) -> Reply:
    """A card with one interface, at the peer's own address unless another is named."""

    async def reply(asked: Asked) -> None:
        own = asked.peer.url + ("/rpc" if binding == "JSONRPC" else "")
        place = asked.peer.elsewhere if url == ELSEWHERE else url or own
        interface = {"url": place, "protocolBinding": binding, "protocolVersion": version}
        await asked.whole(
            json.dumps({"name": "peer", "supportedInterfaces": [interface], **more}).encode()
        )

    return reply


rpc_card = card_of("JSONRPC")


USUAL: Mapping[str, Reply] = {
    "card": missing,
    "send": result({"task": task("WORKING")}),
    "get": result(task("WORKING")),
    "list": result({"tasks": []}),
    "cancel": result(task("CANCELED")),
    "subscribe": missing,
}
"""A peer with one task that is worked on for ever, without streams."""
