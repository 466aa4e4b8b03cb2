"""Server-sent events: writes a stream of events to a client.

Only events that are in the log carry an `id`. Everything that a client receives after its latest
id is provisional: when the client attaches again with that id, the server sends it again.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Protocol

from awaken.contracts.errors import AwakenError
from awaken.contracts.events import AgentEvent, ErrorEvent, LoggedEvent
from awaken.services.event_streams import Batch

from .asgi import Header, Receive, Scope, Send, wait_for_disconnect
from .problems import to_http_error

logger = logging.getLogger(__name__)

SSE_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
HEARTBEAT = b": heartbeat\n\n"
ABORT = "awaken.abort"
"""The ASGI extension with which a reply can drop its connection: a function without arguments."""


class BatchSource(Protocol):
    """A source of event batches: an `EventStream`, or a part of one."""

    before: list[AgentEvent]
    on_drop: Callable[[], None] | None

    def batches(self) -> AsyncGenerator[Batch, None]:
        """Yield the events in order."""
        ...

    def close(self) -> None:
        """Release what the stream holds; it is not read any further."""
        ...


class Encoder(Protocol):
    """Encodes one reader's events for one protocol; depends only on the events it was given."""

    def encode(self, event: AgentEvent) -> Sequence[bytes]:
        """Encode an event as frames: the lines of each, without an id and without a blank line.

        After a terminal event there are no frames, unless a suspended run resumes.
        """
        ...


def data_line(payload: bytes) -> bytes:
    """A frame that consists of one data line."""
    return b"data: " + payload


def frames(encoder: Encoder, batch: Batch, branch: bytes = b"") -> bytes:
    """Encode a batch; the last frame of a logged event carries the event's id."""
    parts: list[bytes] = []
    for item in batch:
        if type(item) is LoggedEvent:
            lines = encoder.encode(item.event)
            if lines:
                parts += lines[:-1]
                parts.append(b"id: %d%b\n%b" % (item.seq, branch, lines[-1]))
        else:
            parts += encoder.encode(item)  # type: ignore[arg-type]
    parts.append(b"")
    return b"\n\n".join(parts) if len(parts) > 1 else b""


class EventStreamReply:
    """Writes a stream until it ends, the client disconnects, or the client reads too slowly."""

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
        self._branch = f"@{branch}".encode() if branch else b""
        self._stream = stream
        self._encoder = encoder
        self._headers = headers
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write the stream; the run does not depend on it."""
        writing = asyncio.current_task()
        assert writing is not None
        is_stopped = False

        def stop(_: object = None) -> None:
            nonlocal is_stopped
            is_stopped = True
            writing.cancel()

        self._stream.on_drop = stop
        watching = asyncio.ensure_future(wait_for_disconnect(receive))
        watching.add_done_callback(stop)
        try:
            await self._write(send)
        except asyncio.CancelledError:
            if not is_stopped:
                raise
            writing.uncancel()
            watching.remove_done_callback(stop)
            if not watching.done():
                await _drop_connection(scope, watching)
        finally:
            watching.remove_done_callback(stop)
            watching.cancel()
            self._stream.on_drop = None
            self._stream.close()
            if self._on_end is not None:
                self._on_end()

    async def _write(self, send: Send) -> None:
        headers = [*SSE_HEADERS, *self._headers]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        encoder, body = self._encoder, "http.response.body"
        if self._opening:
            await send({"type": body, "body": self._opening, "more_body": True})
        for number, event in enumerate(self._stream.before):
            encoder.encode(event)
            if number % 1000 == 999:
                # Other tasks must run while the encoder catches up with a long run.
                await asyncio.sleep(0)
        self._stream.before.clear()
        batches = self._stream.batches()
        try:
            async for batch in batches:
                chunk = frames(encoder, batch, self._branch) if batch else HEARTBEAT
                if chunk:
                    await send({"type": body, "body": chunk, "more_body": True})
        except Exception as error:  # noqa: BLE001 - the reader gets an event, the log the error
            last = frames(encoder, [_error_event(error)])
            await send({"type": body, "body": last, "more_body": True})
        finally:
            await batches.aclose()
        await send({"type": body, "body": b""})


async def _drop_connection(scope: Scope, disconnected: "asyncio.Future[None]") -> None:
    """Drop the connection, and what is buffered for a client that does not read."""
    abort = scope.get("extensions", {}).get(ABORT)
    if abort is not None:
        abort()
        await asyncio.wait({disconnected}, timeout=1)


def _error_event(error: Exception) -> ErrorEvent:
    if isinstance(error, AwakenError):
        problem = to_http_error(error)
        return ErrorEvent(message=problem.message, code=problem.code)
    logger.error("A stream broke", exc_info=error)
    return ErrorEvent(message="The stream broke; attach again.", code="internal_error")
