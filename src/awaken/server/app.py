"""The ASGI app: the routes of all protocols, and the lifespan of their background work."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Generic, TypeVar
from urllib.parse import unquote

from awaken.contracts.errors import AwakenError
from awaken.contracts.storage.inspection import WatchedStore
from awaken.transport.asgi import Bytes, Receive, Scope, Send
from awaken.transport.problems import HttpError, native_refusal, to_http_error
from awaken.transport.routes import ApiRoute, WireProtocol

from .addresses import HostOriginCheck
from .endpoint import Endpoint, ServerContext
from .exchange import HttpExchange, headers_of, request_id_of
from .openapi import with_document
from .operations import Operations

logger = logging.getLogger(__name__)
access_logger = logging.getLogger("awaken.access")
"""Logs one line for each request, if its level is INFO."""

T = TypeVar("T")
_PARAMETER = re.compile(r"\{(\w+)(:path)?\}")
_REST = (0, "")
ENCODED_SLASH = "\udc2f"
"""Stands for a slash that is part of an id. Decoding a path never yields a lone surrogate."""
_ENCODED = re.compile("%2[fF]")


class ServerApp:
    """Serves protocols over one runtime. The first request opens it, if it is not open yet."""

    def __init__(
        self,
        context: ServerContext,
        protocols: Sequence[WireProtocol],
        open_runtime: Callable[[AsyncExitStack], Awaitable[None]],
        version: str = "0",
    ) -> None:
        self.context = context
        operations = Operations(context, [it.name for it in protocols], version)
        spoken = (route for protocol in protocols for route in protocol.routes)
        self.routes: tuple[ApiRoute, ...] = with_document((*operations.routes(), *spoken), version)
        self._services = context.services
        self._protocols = protocols
        self._open_runtime = open_runtime
        self._origin_check = HostOriginCheck(context.config)
        self._table = RouteTable(
            (route.method, route.path, Endpoint(route, self.context)) for route in self.routes
        )
        self._opening = asyncio.Lock()
        self._running: AsyncExitStack | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or start and stop."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        clock, observations = self._services.clock, self.context.observations
        started = clock.monotonic_ms()
        exchange = HttpExchange(scope, send, request_id_of(scope) or self._services.ids.new_id())
        # The exchange has what is needed, as long as it is needed.
        del scope, send
        route = "unmatched"
        observations.in_flight.value += 1
        try:
            found: Endpoint | Bytes | None = None
            if self._running is None:
                found = await self._open_first(exchange)
            if found is None:
                found = self._find_endpoint(exchange)
            if isinstance(found, Endpoint):
                route = found.route.path
                await found(exchange, receive)
            else:
                await found(exchange.scope, receive, exchange.send)
        finally:
            observations.in_flight.value -= 1
            took = clock.monotonic_ms() - started
            observations.count_request(exchange.method, route, exchange.status, took)
            if access_logger.isEnabledFor(logging.INFO):
                _log_access(exchange, route, took)

    async def open(self) -> None:
        """Start what the server needs; calling it twice is harmless."""
        async with self._opening:
            if self._running is not None:
                return
            self._services.streams.open()
            async with AsyncExitStack() as stack:
                await self._open_runtime(stack)
                self._observe(stack)
                for protocol in self._protocols:
                    if protocol.lifespan is not None:
                        await stack.enter_async_context(protocol.lifespan(self._services))
                self._running = stack.pop_all()
            self.context.is_draining = False

    def _observe(self, stack: AsyncExitStack) -> None:
        """Count commits, calls and deliveries until the stack is closed."""
        services, context = self._services.engine.services, self.context
        observations = context.observations

        def watch(watchers: list[T], *more: T) -> None:
            for watcher in more:
                watchers.append(watcher)
                stack.callback(watchers.remove, watcher)

        watch(services.watchers.commits, observations.count_commit)
        watch(services.instruments, observations.instrument)
        watch(self._services.control.mailbox_watchers, observations.mailbox)
        node, remote = observations.node, self._services.streams.remote
        watch(services.watchers.lost_leases, node.on_lease_lost)
        watch(self._services.control.mailbox.services.bus.watchers, node)
        if remote is not None:
            watch(remote.watchers, node)
        if isinstance(self._services.store, WatchedStore):
            watch(self._services.store.watchers, node)

    def drain(self) -> None:
        """Accept no more requests and report that as unhealthy; running requests continue."""
        self.context.is_draining = True

    async def close(self) -> None:
        """Accept no more requests, end every stream, then stop what was started."""
        self.drain()
        self._services.streams.close()
        self.context.refusals.close()
        running, self._running = self._running, None
        if running is not None:
            await running.aclose()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.open()
        except Exception as error:  # noqa: BLE001 - the web server gets the message, and stops
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _open_first(self, exchange: HttpExchange) -> Bytes | None:
        """Open the server for its first request; returns the reply that says why it failed."""
        if self.context.is_draining:
            return None
        try:
            await self.open()
        except AwakenError as error:
            logger.exception("The server could not be opened (%s)", exchange.request_id)
            return self._refuse(to_http_error(error), exchange)
        return None

    def _find_endpoint(self, exchange: HttpExchange) -> Endpoint | Bytes:
        """Find the endpoint of a request, or the reply that says why there is none."""
        try:
            return self._match_route(exchange)
        except HttpError as problem:
            return self._refuse(problem, exchange)

    def _refuse(self, problem: HttpError, exchange: HttpExchange) -> Bytes:
        problem.request_id = exchange.request_id
        self.context.refusals.note(problem, "unmatched", exchange.client)
        return native_refusal(problem)

    def _match_route(self, exchange: HttpExchange) -> Endpoint | Bytes:
        scope = exchange.scope
        headers = exchange.headers = headers_of(scope, self.context.config.limits)
        self._origin_check.check(headers)
        origin = headers.get("origin")
        if origin is not None and self._origin_check.allows(origin):
            exchange.allow_origin(origin)
        # The path below the mount point of the app.
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if "raw_path" in scope and scope["raw_path"] and b"%2" in scope["raw_path"]:
            path = mark_slashes(path, scope["raw_path"])
        found = self._table.find(path)
        if found is None:
            raise HttpError(404, "not_found", "There is nothing at this path; see /openapi.json.")
        endpoints, exchange.path = found
        scope["path_params"] = exchange.path
        method = scope["method"]
        endpoint = endpoints.get("GET" if method == "HEAD" else method)
        # A stream without its body would never end.
        if endpoint is None or (method == "HEAD" and endpoint.route.reply is bytes):
            return _other(method, endpoints)
        return endpoint


def mark_slashes(path: str, raw: bytes) -> str:
    """The path below the mount point, decoded, with `ENCODED_SLASH` for each `%2F` of the raw path.

    The raw path has the mount point's part as well; if a framework around has changed it, the
    decoded path stays.
    """
    marked = unquote(_ENCODED.sub(ENCODED_SLASH, raw.decode("latin-1")))
    below = marked[len(marked) - len(path) :]
    return below if below.replace(ENCODED_SLASH, "/") == path else path


def _log_access(exchange: HttpExchange, route: str, took_ms: float) -> None:
    """Log that a request was answered, without its query, which may hold secrets."""
    facts = {"method": exchange.method, "path": exchange.url_path, "status": exchange.status}
    access_logger.info(
        "%s %s %d in %d ms",
        *facts.values(),
        took_ms,
        extra={
            **facts,
            "event": "request",
            "route": route,
            "took_ms": took_ms,
            "client": exchange.client,
            "request_id": exchange.request_id,
        },
    )


def _other(method: str, endpoints: Mapping[str, Endpoint]) -> Bytes:
    """Answer CORS preflight requests, and methods that no route of the path has."""
    methods = ", ".join((*endpoints, "OPTIONS")).encode()
    if method != "OPTIONS":
        message = f"This path only knows {methods.decode()}."
        raise HttpError(405, "method_not_allowed", message, ((b"allow", methods),))
    # Pages send tokens, never cookies: credentials are not allowed.
    names = (b"access-control-allow-headers", b"authorization, *")
    allowed = (b"access-control-allow-methods", methods)
    age = (b"access-control-max-age", b"600")
    return Bytes(204, headers=((b"allow", methods), allowed, names, age))


class RouteTable(Generic[T]):
    """Finds the target of a path; routes with a longer literal part are tried first.

    `{name}` matches a part of one segment, `{name:path}` everything up to the end. An
    `ENCODED_SLASH` in a path separates nothing, and is a slash in the parameter.

    Raises:
        ValueError: Two routes are the same.
    """

    def __init__(self, entries: Iterable[tuple[str, str, T]]) -> None:
        self._plain: dict[str, dict[str, T]] = {}
        self._patterns: dict[tuple[int, str], dict[str, tuple[re.Pattern[str], dict[str, T]]]] = {}
        for method, path, target in sorted(entries, key=lambda it: -len(_literal(it[1]))):
            if self._targets(path).setdefault(method, target) is not target:
                raise ValueError(f"There are two routes for {method} {path}")

    def find(self, path: str) -> tuple[dict[str, T], dict[str, str]] | None:
        """Find the targets of a path by method, and the parameters in the path."""
        if (plain := self._plain.get(path)) is not None:
            return plain, {}
        size, first = _shape(path)
        for shape in ((size, first), (size, ""), _REST):
            for pattern, targets in self._patterns.get(shape, {}).values():
                if match := pattern.fullmatch(path):
                    found = match.groupdict()
                    if ENCODED_SLASH in path:
                        found = {it: found[it].replace(ENCODED_SLASH, "/") for it in found}
                    return targets, found
        return None

    def _targets(self, path: str) -> dict[str, T]:
        if "{" not in path:
            return self._plain.setdefault(path, {})
        size, first = _shape(path)
        shape = _REST if ":path}" in path else (size, "" if "{" in first else first)
        return self._patterns.setdefault(shape, {}).setdefault(path, (_pattern(path), {}))[1]


def _shape(path: str) -> tuple[int, str]:
    return path.count("/"), path[1:].partition("/")[0]


def _literal(path: str) -> str:
    return _PARAMETER.sub("", path)


def _pattern(path: str) -> re.Pattern[str]:
    # Split into literal, name and kind by turns.
    parts = _PARAMETER.split(path)
    text = re.escape(parts[0])
    for name, rest, literal in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        text += f"(?P<{name}>{'.+' if rest else '[^/]+'}){re.escape(literal)}"
    return re.compile(text, re.DOTALL)
