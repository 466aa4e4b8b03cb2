"""As much of HTTP/1.1 as a client of models needs: requests with a length, answers in chunks."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NoReturn

import msgspec

from .answers import ModelRequest
from .faults import Cut, HttpAnswer
from .wires import wire_of

_REASONS = {status.value: status.phrase for status in HTTPStatus}
_LINGER_NOT = struct.pack("ii", 1, 0)


class Connection:
    """One client, from its first request to its leaving.

    Every method raises `ConnectionError` when the client left or was thrown out.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        # A piece counts as sent when the system has it: cuts are exact to the byte.
        writer.transport.set_write_buffer_limits(0)

    async def request(self) -> ModelRequest | None:
        """Read the next request; none when the client has left."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").strip().split("\r\n")
            pairs = (line.partition(":") for line in lines)
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            raw = await self._reader.readexactly(int(headers.get("content-length", 0)))
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise ConnectionResetError("the client left in the middle") from error
            return None
        method, path, _ = first.split(" ")
        wire, body = wire_of(path), msgspec.json.decode(raw) if raw else {}
        turns = tuple(wire.turns(body)) if wire else ()
        return ModelRequest(method, path, headers, body, raw, turns)

    async def send(self, answer: HttpAnswer) -> None:
        """Send a status and a body; one whose length is not known comes in chunks."""
        if isinstance(answer.body, bytes):
            length = {"content-length": str(len(answer.body))}
            await self._write(_head(answer.status, {**answer.headers, **length}) + answer.body)
            return
        await self.begin(answer.status, answer.headers)
        for piece in answer.body():
            await self.piece(piece)
        await self.end("end")

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin an answer in chunks."""
        await self._write(_head(status, {**headers, "transfer-encoding": "chunked"}))

    async def piece(self, piece: bytes) -> None:
        """Send one chunk, and let the client read it before the next one."""
        if piece:
            await self._write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await asyncio.sleep(0)

    async def end(self, cut: Cut) -> None:
        """End an answer in chunks, well or badly."""
        match cut:
            case "end":
                await self._write(b"0\r\n\r\n")
            case "close":
                raise ConnectionAbortedError("closed in the middle, as it was asked for")
            case "abort":
                self.reset()

    def reset(self) -> NoReturn:
        """Break the connection, so that the client sees a reset and no end."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self._writer.transport.abort()
        raise ConnectionResetError("reset, as it was asked for")

    async def wait(self, pause: Callable[[], Awaitable[object]]) -> None:
        """Wait for something, but not longer than the client does."""
        tasks = [asyncio.ensure_future(pause()), asyncio.ensure_future(self.wait_for_disconnect())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            paused, left = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in (left, paused):
            if isinstance(outcome, Exception):
                raise outcome

    async def wait_for_disconnect(self) -> NoReturn:
        """Wait until the client leaves."""
        while await self._reader.read(1024):
            pass
        raise ConnectionResetError("the client left")

    def close(self) -> None:
        """Hang up."""
        self._writer.close()

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    reason = _REASONS.get(status, "Unknown")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {reason}\r\n{lines}\r\n".encode("latin-1")
