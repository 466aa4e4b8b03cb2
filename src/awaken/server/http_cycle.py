"""One request of a connection and its reply, as the ASGI app sees them."""

import asyncio
import http
import logging
import re
from collections.abc import Callable
from typing import Protocol

from awaken.transport.asgi import Header, Message

logger = logging.getLogger(__name__)

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_CONTROL_CHARS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_STATUS_LINES = {
    it.value: b"HTTP/1.1 %d %b\r\n" % (it.value, it.phrase.encode()) for it in http.HTTPStatus
}
_WITHOUT_BODY = (204, 304)
_FAILED: Message = {
    "type": "http.response.start",
    "status": 500,
    "headers": ((b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"21")),
}


class ServedConnection(Protocol):
    """The connection of a request."""

    transport: asyncio.Transport
    is_write_paused: bool

    def default_headers(self) -> list[Header]:
        """The headers of every reply."""
        ...

    def resume_reading(self) -> None:
        """Take more from the client."""
        ...

    def close(self) -> None:
        """Close the connection when the client has read what is buffered, or after a while."""
        ...

    async def drain(self) -> None:
        """Wait until the client has read, or is gone."""
        ...

    def end_reply(self, *, keeps_alive: bool) -> None:
        """The reply is whole."""
        ...

    def end_task(self, task: "asyncio.Task[None]") -> None:
        """The request was served."""
        ...


class HttpCycle:
    """A request and its reply; it keeps nothing of what the app has taken or sent."""

    __slots__ = (
        "_body", "_connection", "_expects_continue", "_has_more_body", "_has_news", "_is_chunked",
        "_is_disconnected", "_is_head", "_is_whole", "_left", "_news",
        "_on_disconnect", "is_started", "keeps_alive",
    )  # fmt: skip

    def __init__(
        self,
        connection: ServedConnection,
        *,
        keeps_alive: bool,
        is_head: bool,
        expects_continue: bool,
    ) -> None:
        self._connection = connection
        self.keeps_alive = keeps_alive
        self._is_head = is_head
        self._expects_continue = expects_continue
        self._body: bytes | bytearray = b""
        """What the app has not taken of the body."""
        self._has_more_body = True
        self._has_news = False
        """Whether the app has not been told of a part of the body, or of its end."""
        self._news: asyncio.Event | None = None
        """Set when there is something to receive; exists while the app waits for it."""
        self._on_disconnect: Callable[[], None] | None = None
        self._is_disconnected = False
        self.is_started = self._is_whole = False
        """Whether the reply has begun, and whether its last byte is written."""
        self._is_chunked = False
        self._left = 0
        """How many bytes of the announced length are missing."""

    # ---- what the client does ----

    def take_body(self, body: bytes) -> int:
        """Take a part of the body; returns how much of it is unread."""
        if self._is_whole:
            return 0
        if not self._body:
            self._body = body
        else:
            # A body may come in chunks of one byte: joining them must not copy what is there.
            if type(self._body) is bytes:
                self._body = bytearray(self._body)
            self._body += body
        self._tell_app()
        return len(self._body)

    def end_body(self) -> None:
        """The body is whole."""
        self._has_more_body = False
        self._tell_app()

    def disconnect(self) -> None:
        """The client is gone."""
        self._is_disconnected = True
        self._tell_app()
        callback, self._on_disconnect = self._on_disconnect, None
        if callback is not None:
            callback()

    def _tell_app(self) -> None:
        self._has_news = True
        if self._news is not None:
            self._news.set()
            self._news = None

    # ---- what the app does ----

    def watch_disconnect(self, callback: Callable[[], None]) -> None:
        """Call back when the client disconnects before the reply is whole."""
        self._on_disconnect = callback
        self._connection.resume_reading()
        if self._is_disconnected:
            callback()

    def abort(self) -> None:
        """Drop the connection, and what is buffered for a client that does not read."""
        self._connection.transport.abort()

    async def receive(self) -> Message:
        """Wait for a part of the body, or for the end of the connection or the reply."""
        if self._expects_continue:
            self._expects_continue = False
            if not self._connection.transport.is_closing():
                self._connection.transport.write(_CONTINUE)
        if not (self._has_news or self._is_whole):
            self._connection.resume_reading()
            self._news = self._news or asyncio.Event()
            await self._news.wait()
        if self._is_disconnected or self._is_whole:
            return {"type": "http.disconnect"}
        self._has_news = False
        body, self._body = bytes(self._body), b""
        return {"type": "http.request", "body": body, "more_body": self._has_more_body}

    async def send(self, message: Message) -> None:
        """Send a part of the reply; waits while the client does not read."""
        if self._connection.is_write_paused:
            await self._connection.drain()
        if self._is_disconnected:
            return
        if self.is_started:
            self._send_body(message)
        else:
            self._send_head(message)

    def on_served(self, task: "asyncio.Task[None]") -> None:
        """End a reply that the app did not end."""
        self._connection.end_task(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("A request failed", exc_info=error)
        self._on_disconnect = None
        if self._is_whole or self._is_disconnected:
            return
        if self.is_started:
            self._connection.close()
        else:
            self.keeps_alive = False
            self._send_head({**_FAILED})
            self._send_body({"type": "http.response.body", "body": b"Internal Server Error"})

    def _send_head(self, message: Message) -> None:
        if message["type"] != "http.response.start":
            raise RuntimeError(f"A reply begins with 'http.response.start', not {message['type']}")
        status, headers = message["status"], message.get("headers", ())
        if _CONTROL_CHARS.search(b"".join([value for _, value in headers])):
            raise RuntimeError("A header has characters that it cannot have")
        if self._expects_continue and self._has_more_body and not self._body:
            # A client that was not told to send its body may send another request in its place.
            self.keeps_alive = False
        self.is_started, self._expects_continue = True, False
        parts = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        has_length = False
        for name, value in (*self._connection.default_headers(), *headers):
            parts.append(b"%b: %b\r\n" % (name, value))
            if name == b"content-length":
                self._left, has_length = int(value), True
            elif name == b"connection" and value == b"close":
                self.keeps_alive = False
        if not self.keeps_alive and (b"connection", b"close") not in headers:
            parts.append(b"connection: close\r\n")
        if not has_length and not self._is_head and status not in _WITHOUT_BODY:
            self._is_chunked = True
            parts.append(b"transfer-encoding: chunked\r\n")
        parts.append(b"\r\n")
        self._connection.transport.write(b"".join(parts))

    def _send_body(self, message: Message) -> None:
        if self._is_whole or message["type"] != "http.response.body":
            raise RuntimeError(f"A reply does not go on with '{message['type']}'")
        body, has_more = message.get("body", b""), message.get("more_body", False)
        if self._is_head:
            self._left = 0
        elif self._is_chunked:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self._connection.transport.write(chunk if has_more else chunk + b"0\r\n\r\n")
        else:
            self._left -= len(body)
            if self._left < 0 or (self._left and not has_more):
                raise RuntimeError("The body has not the length that was announced")
            self._connection.transport.write(body)
        if not has_more:
            self._is_whole = True
            self._tell_app()
            self._connection.end_reply(keeps_alive=self.keeps_alive)
