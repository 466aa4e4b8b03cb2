"""HTTP/1.1 connections of `awaken serve`: they need little memory while a stream is silent.

uvicorn accepts the connections and stops the server; what a connection keeps and how long it may
take is decided here. Connections that send too slowly or never read are dropped. With another web
server only the limits of the app hold. See ADR 36.
"""

import asyncio
import logging
from collections import deque
from typing import Any, cast
from urllib.parse import unquote

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from awaken.runtime.primitives.timers import Watchdog
from awaken.transport.asgi import CONNECTION, App, Header, Scope

from .http_cycle import HttpCycle

logger = logging.getLogger(__name__)

HEAD_S = 15.0
"""How long a client may take to send the head of a request."""
HEAD_BYTES = 64 * 1024
"""How much a client may send that is no part of a body: a head, or fields after a body."""
STALL_S = 30.0
"""How long a client may take to read what is buffered, if that is much or the last of all."""
BODY_BYTES = 64 * 1024
"""So much of a body may be unread before no more is taken from the client."""

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n"
_MALFORMED = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 30\r\nconnection: close\r\n\r\nInvalid HTTP request received."
)
_ASGI = {"version": "3.0", "spec_version": "2.3"}
_METHODS = {it.encode(): it for it in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")}


class HttpConnections:
    """Makes the connections of one server; pass it to uvicorn as `http`."""

    __slots__ = ("app", "forwarded_app", "keep_alive_s", "loop", "scheme", "state", "watchdog")

    app: App
    forwarded_app: App
    """For requests that a proxy has forwarded; it reads the proxy's headers."""
    keep_alive_s: float
    loop: asyncio.AbstractEventLoop
    scheme: str
    state: ServerState
    watchdog: Watchdog
    """One timer for the limits of all connections."""

    def __call__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> "HttpConnection":
        """Make a connection, as uvicorn asks for it."""
        if getattr(self, "state", None) is not server_state:
            self.loop = loop = _loop or asyncio.get_running_loop()
            self.watchdog, self.state = Watchdog(loop), server_state
            self.app = self.forwarded_app = cast("App", config.loaded_app)
            if isinstance(self.forwarded_app, ProxyHeadersMiddleware):
                self.app = cast("App", self.forwarded_app.app)
            self.keep_alive_s = config.timeout_keep_alive
            self.scheme = "https" if config.is_ssl else "http"
        return HttpConnection(self)


class HttpConnection(asyncio.Protocol):
    """Parses the requests of one client and serves one after another.

    While a request is served and no other one is coming, it has no parser and no timer.
    """

    __slots__ = (
        "_client", "_drained", "_has_head_limit", "_has_progress", "_head_bytes", "_headers",
        "_ignored_framing", "_is_in_head", "_is_last", "_is_reading_paused", "_later", "_parsed",
        "_parser", "_served", "_shared", "_stall_timer", "_url", "is_write_paused", "transport",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, shared: HttpConnections) -> None:
        self._shared = shared
        self._client: tuple[str, int] | None = None
        self._parser: HttpRequestParser | None = None
        """Present between the first byte of a request and its last."""
        self._url = b""
        self._headers: list[Header] | None = None
        self._ignored_framing = b""
        """The headers that frame a body which the parser takes for another protocol."""
        self._parsed: HttpCycle | None = None
        """The request whose body is coming."""
        self._served: HttpCycle | None = None
        self._later: deque[tuple[HttpCycle, App, Scope]] | None = None
        """Requests that the client sent without waiting for the reply."""
        self._is_last = False
        """Whether no request follows the latest one."""
        self._is_in_head, self._head_bytes, self._has_head_limit = False, 0, False
        self._has_progress = False
        """Whether the latest data had the end of a head or a part of a body."""
        self._is_reading_paused = self.is_write_paused = False
        self._drained: asyncio.Event | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    # ---- the transport ----

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Limit the time for the first request head."""
        self.transport = transport
        self._client = get_remote_addr(transport)
        self._shared.state.connections.add(self)  # type: ignore[arg-type]
        self._limit_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is being served: nothing can be sent any more."""
        self._shared.state.connections.discard(self)
        self._shared.watchdog.clear(self)
        self._parser = self._later = None
        self.resume_writing()
        served, parsed, self._served, self._parsed = self._served, self._parsed, None, None
        if served is not None:
            served.disconnect()
        if parsed is not None and parsed is not served:
            parsed.disconnect()

    def data_received(self, data: bytes) -> None:
        """Parse data; while no request is served, all of it counts toward the next head."""
        if self._is_last and self._parsed is None:
            return
        if self._parser is None:
            self._parser = HttpRequestParser(self)
        self._has_progress = False
        try:
            self._parse(self._parser, data)
        except HttpParserError:
            # What comes after the last request is not read, whatever it is.
            if not self._is_last:
                self._refuse(_MALFORMED)
                return
        if self._is_in_head or (self._parsed is not None and not self._has_progress):
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refuse(_TOO_LARGE)
                return
        elif self._parsed is None:
            self._parser = None
        if self._served is not None and (self._is_reading_paused or not self._is_in_head):
            # A client whose data is not taken is not slow.
            self._shared.watchdog.clear(self)
            self._has_head_limit = False
        elif not self._has_head_limit:
            # Any data, such as a blank line or the rest of an unread body, has to be followed by
            # a request.
            self._limit_head()

    def _parse(self, parser: HttpRequestParser, data: bytes) -> None:
        try:
            parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            # No other protocol is spoken: the request is the last one, and served as it is.
            if self._ignored_framing:
                head = b"POST / HTTP/1.1\r\nconnection: close\r\n%b\r\n" % self._ignored_framing
                self._ignored_framing = b""
                self._parser = HttpRequestParser(_BodyCallbacks(self))
                self._parser.feed_data(head + data[upgrade.args[0] :])

    def eof_received(self) -> None:
        """Close the connection: a client that sends no more is gone."""
        self.close()

    def pause_writing(self) -> None:
        """Limit the time for a client that does not read."""
        self.is_write_paused = True
        if self._stall_timer is None:
            self._stall_timer = self._shared.loop.call_later(STALL_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Write on: the client has read."""
        self.is_write_paused = False
        if self._drained is not None:
            self._drained.set()
            self._drained = None
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def shutdown(self) -> None:
        """Close the connection after the reply that is being sent."""
        if self._served is None:
            self.close()
        else:
            self._served.keeps_alive = False

    def _limit_head(self) -> None:
        shared, self._has_head_limit = self._shared, True
        shared.watchdog.set(self, shared.loop.time() + HEAD_S)

    def on_moment(self) -> None:
        """Drop a client that sends no head or does not read the rest; close an idle connection."""
        if self._has_head_limit or self.transport.is_closing():
            self.transport.abort()
        else:
            self.close()

    def _refuse(self, reply: bytes) -> None:
        self._parser, self._is_last = None, True
        if self._served is None or not self._served.is_started:
            self.transport.write(reply)
        self.close()

    # ---- the parser ----

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._is_in_head, self._head_bytes = True, 0
        self._url, self._headers = b"", []

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; fields after the body are not used."""
        if self._headers is not None:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Serve the request, after those that came before it."""
        assert self._parser is not None
        assert self._headers is not None
        parser, headers, url = self._parser, self._headers, parse_url(self._url)
        self._is_in_head, self._headers, self._url = False, None, b""
        self._has_progress, self._head_bytes = True, 0
        version, method = parser.get_http_version(), parser.get_method()
        path = url.path.decode("ascii")
        names = dict(headers)
        is_last = version == "1.0" or parser.should_upgrade() or not parser.should_keep_alive()
        self._parsed = cycle = HttpCycle(
            self,
            keeps_alive=not is_last,
            is_head=method == b"HEAD",
            expects_continue=names.get(b"expect", b"").lower() == b"100-continue",
        )
        if parser.should_upgrade() and method != b"CONNECT":
            framing = [it for it in headers if it[0] in (b"content-length", b"transfer-encoding")]
            self._ignored_framing = b"".join([b"%b: %b\r\n" % it for it in framing])
        scope: Scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": _METHODS.get(method) or method.decode("ascii"),
            "scheme": self._shared.scheme,
            "root_path": "",
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "headers": headers,
            "client": self._client,
            "server": None,
            "extensions": {CONNECTION: cycle},
        }
        is_forwarded = b"x-forwarded-for" in names or b"x-forwarded-proto" in names
        app = self._shared.forwarded_app if is_forwarded else self._shared.app
        if self._served is None:
            self._serve(cycle, app, scope)
        else:
            self._pause_reading()
            self._later = self._later or deque()
            self._later.append((cycle, app, scope))

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._has_progress, self._head_bytes = True, 0
        if self._parsed is not None and self._parsed.take_body(body) > BODY_BYTES:
            self._pause_reading()

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._parsed is not None and not self._ignored_framing:
            self._is_last = not self._parsed.keeps_alive
            self._parsed.end_body()
            self._parsed = None

    # ---- the request that is served ----

    def _pause_reading(self) -> None:
        """Take nothing more from the client."""
        if not self._is_reading_paused:
            self._is_reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Take more from the client."""
        if self._is_reading_paused:
            self._is_reading_paused = False
            self.transport.resume_reading()

    def close(self) -> None:
        """Close the connection when the client has read what is buffered, or after a while."""
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._shared.watchdog.set(self, self._shared.loop.time() + STALL_S)

    async def drain(self) -> None:
        """Wait until the client has read, or is gone."""
        if self.is_write_paused:
            self._drained = self._drained or asyncio.Event()
            await self._drained.wait()

    def default_headers(self) -> list[Header]:
        """The headers of every reply: the date."""
        return self._shared.state.default_headers

    def _serve(self, cycle: HttpCycle, app: App, scope: Scope) -> None:
        tasks = self._shared.state.tasks
        self._served = cycle
        # One name for all: a task without one makes its own and keeps it.
        task = self._shared.loop.create_task(app(scope, cycle.receive, cycle.send), name="request")
        tasks.add(task)
        task.add_done_callback(cycle.on_served)

    def end_task(self, task: "asyncio.Task[None]") -> None:
        """Forget the task of a request that was served."""
        self._shared.state.tasks.discard(task)

    def end_reply(self, *, keeps_alive: bool) -> None:
        """Go on with the next request, or close the connection."""
        shared, self._served = self._shared, None
        shared.state.total_requests += 1
        if not keeps_alive:
            self.close()
        if self.transport.is_closing():
            return
        self.resume_reading()
        if self._later:
            self._serve(*self._later.popleft())
        elif self._is_in_head:
            if not self._has_head_limit:
                self._limit_head()
        else:
            self._has_head_limit = False
            shared.watchdog.set(self, shared.loop.time() + shared.keep_alive_s)


class _BodyCallbacks:
    """What a parser tells a connection that has the head of the request already."""

    __slots__ = ("on_body", "on_message_complete")

    def __init__(self, connection: HttpConnection) -> None:
        self.on_body = connection.on_body
        self.on_message_complete = connection.on_message_complete
