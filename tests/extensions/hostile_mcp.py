"""An MCP server that behaves as badly as a test wants it to, by hand, over stdio and over HTTP.

`python -m tests.extensions.hostile_mcp_cases CASE` speaks over stdio; `HostileServer` speaks
streamable HTTP on the loopback. Standard library only, so that a process starts fast.
"""

import asyncio
import json
import os
import socket
import struct
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

Reply = Callable[["Asked"], Awaitable[None]]
LATEST = "2025-11-25"
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


class Wire(Protocol):
    """Where the answer to one message goes."""

    async def send(self, *messages: Any) -> None:
        """Whole messages."""
        ...

    async def answer(self, message: Any) -> None:
        """The last message."""
        ...

    async def raw(self, *pieces: bytes) -> None:
        """Bytes, in the place where messages are expected."""
        ...

    async def hang(self) -> None:
        """Nothing more, until the other side goes."""
        ...

    def die(self) -> None:
        """The end of the server."""
        ...


@dataclass
class Asked:
    """One message, and the ways to answer it."""

    message: Any
    method: str
    count: int
    """How often this method has been asked for, from one."""
    wire: Any
    state: "State"
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def params(self) -> Any:
        return self.message.get("params") or {}

    @property
    def id(self) -> Any:
        return self.message.get("id")

    async def result(self, value: Any) -> None:
        """The value that was asked for."""
        await self.wire.answer(answer(self.id, value))

    async def error(self, code: Any, text: Any) -> None:
        """A refusal."""
        error = {"code": code, "message": text}
        await self.wire.answer({"jsonrpc": "2.0", "id": self.id, "error": error})


@dataclass
class State:
    """What one server remembers."""

    replies: Mapping[str, Reply]
    counts: Counter[str] = field(default_factory=Counter)
    heard: list[Any] = field(default_factory=list)
    held: dict[Any, Asked] = field(default_factory=dict)
    """Calls that were not answered."""
    events: dict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    async def take(self, message: Any, wire: Any, headers: Mapping[str, str] | None = None) -> None:
        """Answer one message as it was told to."""
        message = message if isinstance(message, dict) else {"method": "junk"}
        method = message.get("method", "answer")
        self.counts[method] += 1
        if len(self.heard) < 2_000:
            self.heard.append(message)
        self.events[method].set()
        asked = Asked(message, method, self.counts[method], wire, self, headers or {})
        await self.replies.get(method, self.replies["*"])(asked)


def answer(id_: Any, value: Any) -> Any:
    """A message that answers."""
    return {"jsonrpc": "2.0", "id": id_, "result": value}


def note(method: str, **params: Any) -> Any:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def request(id_: Any, method: str, **params: Any) -> Any:
    """A request of the server's own."""
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def said(text: str, **more: Any) -> Any:
    """The result of a tool call."""
    return {"content": [{"type": "text", "text": text}], **more}


def tool(name: Any = "act", **more: Any) -> Any:
    """A tool as it is listed."""
    return {"name": name, "description": "Acts.", "inputSchema": SCHEMA, **more}


# --- the usual server: one tool, which says what it was told


async def no_such_method(asked: Asked) -> None:
    """Requests are refused, everything else is ignored."""
    if asked.method != "answer" and asked.id is not None:
        await asked.error(-32601, f"no {asked.method} here")
    else:
        await asked.wire.answer(None)


async def initialize(asked: Asked) -> None:
    """A good server of the era with sessions."""
    await asked.result(
        {
            "protocolVersion": LATEST,
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "hostile", "version": "1"},
        }
    )


async def list_tools(asked: Asked) -> None:
    """One tool."""
    await asked.result({"tools": [tool()]})


async def call_tool(asked: Asked) -> None:
    """It says what it was told."""
    await asked.result(said(f"did {asked.params['arguments'].get('text')}"))


USUAL: Mapping[str, Reply] = {
    "*": no_such_method,
    "initialize": initialize,
    "tools/list": list_tools,
    "tools/call": call_tool,
}


# --- stdio


class StdioWire:
    """Standard output; writing waits until somebody reads."""

    is_stdio = True

    async def send(self, *messages: Any) -> None:
        await self.raw(*(json.dumps(it).encode() + b"\n" for it in messages))

    async def answer(self, message: Any) -> None:
        if message is not None:
            await self.send(message)

    async def raw(self, *pieces: bytes) -> None:
        for piece in pieces:
            await asyncio.to_thread(_write_all, piece)

    async def hang(self) -> None:
        await asyncio.Event().wait()

    def die(self) -> None:
        os._exit(3)


def _write_all(piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(1, view) :]


async def speak_over_stdio(replies: Mapping[str, Reply]) -> None:
    """Serve until standard input ends."""
    state, wire, tasks = State({**USUAL, **replies}), StdioWire(), set()
    if "start" in replies:
        await state.take({"method": "start"}, wire)
    reader = asyncio.StreamReader(limit=1 << 26)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    async for line in reader:
        task = asyncio.create_task(state.take(json.loads(line), wire))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    if "end" in replies:
        await state.take({"method": "end"}, wire)


# --- streamable HTTP


class HttpWire:
    """The answer to one request: JSON if nothing comes before it, otherwise a stream."""

    is_stdio = False

    def __init__(
        self, server: "HostileServer", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.server, self.reader, self.writer = server, reader, writer
        self.is_streaming = False

    async def send(self, *messages: Any) -> None:
        await self.raw(*(b"data: " + json.dumps(it).encode() + b"\n\n" for it in messages))

    async def answer(self, message: Any) -> None:
        if self.is_streaming:
            await self.send(message)
            self.writer.close()
        elif message is None:
            await self.whole(b"", 202)
        else:
            await self.whole(json.dumps(message).encode())

    async def raw(self, *pieces: bytes) -> None:
        if not self.is_streaming:
            self.is_streaming = True
            self.writer.write(EVENTS)
        await self.bare(*pieces)

    async def bare(self, *pieces: bytes) -> None:
        """Bytes, from the first one on."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def whole(
        self, body: bytes, status: int = 200, kind: str = "application/json", **headers: str
    ) -> None:
        """A whole answer, with its length."""
        named = {"content-type": kind, "content-length": str(len(body)), **headers}
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in named.items()]
        head = "\r\n".join([f"HTTP/1.1 {status} Hm", *lines, "", ""]).encode("latin-1")
        await self.bare(head + body)

    async def hang(self) -> None:
        while await self.reader.read(65536):
            pass
        self.writer.close()

    def die(self) -> None:
        self.server.is_dead = True
        self.reset()

    def reset(self) -> None:
        """Break the connection."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


class HostileServer:
    """Answers each method as it was told to, and keeps what it was asked."""

    def __init__(self, replies: Mapping[str, Reply] | None = None, elsewhere: str = "") -> None:
        self.state = State(
            {**USUAL, "GET": refused(405), "DELETE": refused(200), **(replies or {})}
        )
        self.elsewhere = elsewhere
        """Another server, which redirects point to."""
        self.headers: list[Mapping[str, str]] = []
        self.is_dead = False
        self.url = ""
        self.connections: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "HostileServer":
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0, limit=1 << 26)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/mcp"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self.connections:
            connection.cancel()
        await asyncio.gather(*self.connections, return_exceptions=True)
        await self._server.wait_closed()

    async def is_alone(self) -> bool:
        """Whether nobody is connected any more; waits a moment for those who go."""
        if self.connections:
            await asyncio.wait(self.connections, timeout=5)
        return all(it.done() for it in self.connections)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        current = asyncio.current_task()
        assert current is not None
        self.connections.add(current)
        current.add_done_callback(self.connections.discard)
        try:
            while not writer.is_closing() and not self.is_dead:
                await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        verb = lines[0].partition(" ")[0]
        named = (line.partition(": ") for line in lines[1:] if line)
        headers = {name.lower(): value for name, _, value in named}
        self.headers.append(headers)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        message = json.loads(body) if verb == "POST" else {"method": verb}
        await self.state.take(message, HttpWire(self, reader, writer), headers)


def refused(status: int, body: bytes = b"", **headers: str) -> Reply:
    """A bare status, over HTTP."""
    return lambda asked: asked.wire.whole(body, status, **headers)
