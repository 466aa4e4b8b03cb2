"""A proxy in front of the server, which loses what a network loses, at chosen moments."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from .server import server

COMMIT = b"COMMIT\0"
_PREPARED = re.compile(rb"P....(__asyncpg_stmt_\w+)\0WITH w0 AS", re.DOTALL)
"""How the driver names a statement that writes without a transaction."""


class Proxy:
    """Forwards bytes between clients and the server.

    `cut` says what becomes of the next commit: lost `before` the server has it, or done and its
    reply lost (`after`); `cut_guess` says so of the next write without a transaction. While `hold`
    is not set, both wait. While `is_mute`, nothing gets through in either direction, and no
    connection ends: a half-open socket.
    """

    def __init__(self) -> None:
        self.port = 0
        self.cut: str | None = None
        self.cut_guess: str | None = None
        self.cuts = 0
        self.cut_guesses = 0
        self.hold = asyncio.Event()
        self.hold.set()
        self.held = asyncio.Event()
        self.is_mute = False
        self.on_request: Callable[[bytes], None] = lambda _: None
        self._links: list[_Link] = []

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def abort_all(self) -> None:
        for link in self._links:
            link.abort()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_unix_connection(server().socket)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(self, (reader, writer), there)
        self._links.append(link)
        await asyncio.gather(link.requests(), link.replies())


class _Link:
    def __init__(
        self,
        proxy: Proxy,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        there: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy = proxy
        self._client_reader, self._client_writer = client
        self._server_reader, self._server_writer = there
        self._is_deaf = False
        self._guesses: list[bytes] = []

    async def requests(self) -> None:
        while data := await _read(self._client_reader):
            if self._proxy.is_mute:
                continue
            self._proxy.on_request(data)
            self._guesses += _PREPARED.findall(data)
            if COMMIT in data and not await self._take_commit():
                return
            is_guess = data[:1] == b"B" and any(b"\0%b\0" % it in data for it in self._guesses)
            if is_guess and not await self._take_guess():
                return
            self._server_writer.write(data)
        self._server_writer.close()

    async def replies(self) -> None:
        while data := await _read(self._server_reader):
            if self._is_deaf:
                # The server has done it, and nobody will hear of it.
                self.abort()
            elif not self._proxy.is_mute:
                self._client_writer.write(data)
        if not self._proxy.is_mute:
            self._client_writer.close()

    def abort(self) -> None:
        self._client_writer.transport.abort()
        self._server_writer.transport.abort()

    async def _take_commit(self) -> bool:
        proxy = self._proxy
        await self._wait()
        cut, proxy.cut = proxy.cut, None
        proxy.cuts += cut is not None
        return self._cut(cut)

    async def _take_guess(self) -> bool:
        proxy = self._proxy
        await self._wait()
        cut, proxy.cut_guess = proxy.cut_guess, None
        proxy.cut_guesses += cut is not None
        return self._cut(cut)

    async def _wait(self) -> None:
        if not self._proxy.hold.is_set():
            self._proxy.held.set()
            await self._proxy.hold.wait()

    def _cut(self, cut: str | None) -> bool:
        if cut == "before":
            self.abort()
            return False
        self._is_deaf = cut == "after"
        return True


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(65536)
    except OSError:
        return b""


@asynccontextmanager
async def proxied() -> AsyncIterator[Proxy]:
    """A proxy that ends with the block, and every connection through it with it."""
    # Started before anything has a deadline: a start blocks the event loop for seconds.
    server()
    proxy = Proxy()
    listening = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        proxy.hold.set()
        proxy.abort_all()
        listening.close()
        await server().until_alone()


@asynccontextmanager
async def mute_server() -> AsyncIterator[int]:
    """A port that accepts connections and never answers."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]
