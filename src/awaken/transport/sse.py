"""Server-sent events: writes a stream of events to a client.

Only events that are in the log carry an `id`. Everything that a client receives after its latest
id is provisional: when the client attaches again with that id, the server sends it again.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any, Protocol

from awaken.contracts.errors import AwakenError
from awaken.contracts.events import AgentEvent, ErrorEvent
from awaken.services.event_streams import Batch, EventStream

from .asgi import CONNECTION, ClientConnection, Header, Message, Receive, Scope, Send
from .frames import Encoder, ReaderEncoder
from .problems import to_http_error

logger = logging.getLogger(__name__)

SSE_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
HEARTBEAT = b": heartbeat\n\n"


class BatchSource(Protocol):
    """A source of event batches: an `EventStream`, or one that adds to it or ends earlier."""

    before: list[AgentEvent]
    on_drop: Callable[[], None] | None

    @property
    def source(self) -> EventStream:
        """The stream that it reads."""
        ...

    def batches(self) -> AsyncGenerator[Batch, None]:
        """Yield the events in order."""
        ...

    def close(self) -> None:
        """Release what the stream holds; it is not read any further."""
        ...


class EventStreamReply:
    """Writes a stream until it ends, the client disconnects, or the client reads too slowly.

    A stream may be open and silent for hours: it keeps nothing that was sent.
    """

    __slots__ = (
        "_encoder", "_headers", "_is_left", "_is_stopped", "_on_end", "_opening", "_receive",
        "_stream", "_watching", "_writing",
    )  # fmt: skip

    def __init__(
        self,
        stream: BatchSource,
        encoder: Encoder,
        headers: Iterable[Header] = (),
        on_end: Callable[[], None] | None = None,
        *,
        opening: bytes = b"",
        branch: str = "",
    ) -> None:
        """`opening` is sent at once, before the first event.

        `branch` is the thread's id, if the client knows the thread by another one; see
        `RouteCall.cursor`.
        """
        self._opening = opening
        self._stream = stream
        self._encoder = ReaderEncoder(encoder, f"@{branch}".encode() if branch else b"")
        self._headers = headers
        self._on_end = on_end
        self._writing: asyncio.Task[None] | None = None
        self._receive: Receive | None = None
        """Tells of a disconnect, if the web server does not call back."""
        self._watching: asyncio.Future[Message] | None = None
        self._is_left = self._is_stopped = False
        """Whether the client has disconnected, and whether the stream was stopped for that or
        because it is too far behind."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        """Write the stream; the run does not depend on it."""
        connection: ClientConnection | None = None
        if "extensions" in scope:
            connection = scope["extensions"].get(CONNECTION)
        if connection is None:
            self._receive = receive
        # Nothing else of the request is needed while the stream is open.
        return self._write(send, connection)

    async def _write(self, send: Send, connection: ClientConnection | None) -> None:
        encoder, source, body = self._encoder, self._stream.source, "http.response.body"
        self._writing, self._stream.on_drop = asyncio.current_task(), self._stop
        batches = self._stream.batches()
        try:
            if connection is not None:
                connection.watch_disconnect(self._leave)
            start, self._headers = (*SSE_HEADERS, *self._headers), ()
            await send({"type": "http.response.start", "status": 200, "headers": start})
            del start
            if self._opening:
                await send({"type": body, "body": self._opening, "more_body": True})
                self._opening = b""
            if self._stream.before:
                await encoder.catch_up(self._stream.before)
            if connection is None and not (source.attached and source.attached.is_ready):
                self._watch()
            try:
                async for batch in batches:
                    chunk = encoder.encode(batch, source) if batch else HEARTBEAT
                    if source.is_over:
                        await send({"type": body, "body": chunk})
                        return
                    if chunk:
                        await send({"type": body, "body": chunk, "more_body": True})
                    del batch, chunk
                    if connection is None and self._watching is None:
                        self._watch()
                last = b""
            except Exception as error:  # noqa: BLE001 - the reader gets an event, the log the error
                last = encoder.encode_error(_error_event(error))
            await send({"type": body, "body": last})
        except asyncio.CancelledError:
            if not self._is_stopped or self._writing is None:
                raise
            self._writing.uncancel()
            if connection is not None and not self._is_left:
                connection.abort()
        finally:
            await batches.aclose()
            self._writing = None
            if self._watching is not None:
                self._watching.cancel()
            self._stream.on_drop = None
            self._encoder.close()
            self._stream.close()
            if self._on_end is not None:
                self._on_end()

    def _watch(self) -> None:
        """Wait for the client to disconnect; not needed while there is something to write."""
        assert self._receive is not None
        self._watching = asyncio.ensure_future(self._receive())
        self._watching.add_done_callback(self._on_message)

    def _on_message(self, received: "asyncio.Future[Message]") -> None:
        if self._writing is None:
            return
        is_body = not received.cancelled() and received.exception() is None
        if is_body and received.result()["type"] == "http.request":
            self._watch()
        else:
            self._leave()

    def _leave(self) -> None:
        """Stop, because the client has disconnected."""
        self._is_left = True
        self._stop()

    def _stop(self) -> None:
        if self._writing is not None:
            self._is_stopped = True
            self._writing.cancel()


def _error_event(error: Exception) -> ErrorEvent:
    if isinstance(error, AwakenError):
        problem = to_http_error(error)
        return ErrorEvent(message=problem.message, code=problem.code)
    logger.error("A stream broke", exc_info=error)
    return ErrorEvent(message="The stream broke; attach again.", code="internal_error")
