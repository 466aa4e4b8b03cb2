"""Clients of the measured servers: a connection for each request, on bare sockets."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Protocol

EVENT, WORD = b"data:", b"word0"
LAST_CHUNK = b"0\r\n\r\n"
TIMEOUT = 60.0


class Exchange(asyncio.Protocol):
    """One request and all that came back, with the times at which marks were seen, in order."""

    def __init__(self, request: bytes, marks: tuple[bytes, ...] = (EVENT, WORD)) -> None:
        loop = asyncio.get_running_loop()
        self.began = time.perf_counter()
        self.received = bytearray()
        self.seen: list[float] = []  # seconds until each mark
        self.reached: asyncio.Future[bool] = loop.create_future()  # the last mark, or the end
        self.ended: asyncio.Future[float] = loop.create_future()  # seconds until the end
        self._request = request
        self._marks = marks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.received += data
        while len(self.seen) < len(self._marks) and self._marks[len(self.seen)] in self.received:
            self.seen.append(time.perf_counter() - self.began)
        if len(self.seen) == len(self._marks) and not self.reached.done():
            self.reached.set_result(True)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.reached.done():
            self.reached.set_result(False)
        if not self.ended.done():
            self.ended.set_result(time.perf_counter() - self.began)

    @property
    def status(self) -> int:
        """The status of the reply, 0 without one."""
        code = bytes(self.received[9:12])
        return int(code) if code.isdigit() else 0

    @property
    def is_whole(self) -> bool:
        """Whether the server ended the reply, rather than the connection."""
        return self.received.endswith(LAST_CHUNK)

    def head(self) -> str:
        """The beginning of the reply."""
        return self.received[:400].decode("latin-1") or "the connection was closed"

    def header(self, name: str) -> str | None:
        """A header of the reply."""
        for line in self.received.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n"):
            key, _, value = line.partition(":")
            if key.lower() == name:
                return value.strip()
        return None

    def close(self) -> None:
        """Go away."""
        self.transport.abort()


class Asked(Protocol):
    """A server as clients see it."""

    port: int

    def request(self) -> bytes:
        """A request for one streamed run."""
        ...


@dataclass(slots=True)
class Answers:
    """What a crowd of clients got."""

    first: list[float] = field(default_factory=list)  # seconds until an event, of whole runs
    word: list[float] = field(default_factory=list)  # until the first word
    done: list[float] = field(default_factory=list)  # until the end
    size: int = 0  # bytes of one whole run
    shed: list[int] = field(default_factory=list)  # statuses of those sent away, told when to come
    errors: list[str] = field(default_factory=list)

    def take(self, found: Exchange, deltas: int) -> bool:
        """Sort one in; False when the client was sent away."""
        said = found.received.count(b"word9") >= deltas // 10 and len(found.seen) == 2
        if found.status == 200 and said and found.is_whole:
            self.first.append(found.seen[0])
            self.word.append(found.seen[1])
            self.done.append(found.ended.result())
            self.size = len(found.received)
        elif found.status in (429, 503) and found.header("retry-after"):
            self.shed.append(found.status)
            return False
        else:
            self.errors.append(found.head())
        return True


async def exchange(port: int, request: bytes, marks: tuple[bytes, ...] = (EVENT, WORD)) -> Exchange:
    """Connect and send a request."""
    loop = asyncio.get_running_loop()
    _, found = await loop.create_connection(lambda: Exchange(request, marks), "127.0.0.1", port)
    return found


async def ask(port: int, request: bytes) -> Exchange:
    """A whole exchange; one that takes too long is cut off."""
    found = await exchange(port, request)
    try:
        async with asyncio.timeout(TIMEOUT):
            await asyncio.shield(found.ended)
    except TimeoutError:
        found.close()
        await found.ended
    return found


async def crowd(
    server: Asked, clients: int, seconds: float, *, deltas: int, spread: float = 0
) -> tuple[Answers, float]:
    """So many clients, each asking again as soon as it has its answer, and the seconds it took.

    They begin at the same moment, or spread over some seconds. A client that is sent away comes
    back after a tenth of a second, earlier than it is told to.
    """
    answers = Answers()
    began = time.perf_counter()

    async def client(number: int) -> None:
        await asyncio.sleep(spread * number / clients)
        while time.perf_counter() - began < seconds:
            try:
                is_served = answers.take(await ask(server.port, server.request()), deltas)
            except OSError as error:
                is_served = False
                answers.errors.append(repr(error))
            if not is_served:
                await asyncio.sleep(0.1)

    await asyncio.gather(*(client(number) for number in range(clients)))
    return answers, time.perf_counter() - began


def posted(port: int, path: str, body: dict[str, object] | str) -> bytes:
    """A POST of JSON, or of a form."""
    is_form = isinstance(body, str)
    data = body.encode() if is_form else json.dumps(body).encode()
    kind = "application/x-www-form-urlencoded" if is_form else "application/json"
    return _head("POST", port, path, f"content-type: {kind}", f"content-length: {len(data)}") + data


def got(port: int, path: str) -> bytes:
    """A GET."""
    return _head("GET", port, path)


def _head(method: str, port: int, path: str, *headers: str) -> bytes:
    told = ("accept: text/event-stream", "connection: close", *headers)
    lines = (f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{port}", *told)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
