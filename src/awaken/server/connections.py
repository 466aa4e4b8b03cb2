"""Drops connections that send too slowly or never read.

`awaken serve` passes `GuardedHttp` to uvicorn. With another web server only the limits of the app
hold.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from awaken.transport.sse import ABORT

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Http
else:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol as Http

HEAD_S = 15.0
"""How long a client may take to send the head of a request."""
HEAD_BYTES = 64 * 1024
STALL_S = 30.0
"""How long a client may read nothing while the write buffer is full."""

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n"


class GuardedHttp(Http):
    """Drops connections with an endless request head or a client that does not read."""

    # Slots, since an object with more than thirty attributes in its dict needs 1 KB more for it.
    __slots__ = ("_head_bytes", "_head_timer", "_is_in_head", "_stall_timer")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the first request head."""
        super().connection_made(transport)
        self._is_in_head, self._head_bytes = False, 0
        self._head_timer: asyncio.TimerHandle | None
        self._head_timer = self.loop.call_later(HEAD_S, transport.abort)
        self._stall_timer: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        for timer in (self._head_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data; while no request is served, all of it counts toward the next head."""
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self.transport.write(_TOO_LARGE)
                self.transport.close()
        cycle: Any = self.cycle
        is_serving = cycle is not None and not cycle.response_complete
        if is_serving and not self._is_in_head:
            self._stop_head_timer()
        elif self._head_timer is None:
            # Any data, such as a blank line or the rest of an unread body, has ended uvicorn's
            # own timeout for the next request.
            self._head_timer = self.loop.call_later(HEAD_S, self.transport.abort)

    def on_message_begin(self) -> None:
        """Begin a request; its reply can drop the connection."""
        super().on_message_begin()
        self._is_in_head, self._head_bytes = True, 0
        scope: Any = self.scope
        scope["extensions"] = {ABORT: self.transport.abort}

    def on_headers_complete(self) -> None:
        """Serve the request."""
        self._is_in_head = False
        super().on_headers_complete()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def pause_writing(self) -> None:
        """Start the timer for a client that does not read."""
        super().pause_writing()
        if self._stall_timer is None:
            self._stall_timer = self.loop.call_later(STALL_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop that timer: the client has read."""
        super().resume_writing()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
