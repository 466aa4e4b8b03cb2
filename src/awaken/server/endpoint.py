"""Serves one operation over HTTP: authenticates, decodes, calls the handler, reports errors."""

import asyncio
import logging
from collections.abc import Hashable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import AwakenError, StoreUnavailable
from awaken.contracts.plugins.statistics import StatisticsKeeper
from awaken.contracts.tracing import trace_of
from awaken.services.view import AppServices
from awaken.transport.asgi import Bytes, Receive, Reply, Scope
from awaken.transport.json_bodies import (
    VALUE_BYTES,
    body_error,
    camel_aliases,
    check_document,
    decode_body,
    normalize_keys,
)
from awaken.transport.problems import (
    SWITCHED_OFF,
    HttpError,
    hide_problem_namespace,
    to_http_error,
)
from awaken.transport.routes import Access, ApiRoute, Principal, RouteCall
from awaken.transport.unknown_fields import unknown_field

from .auth import LOCAL, Authenticator, LoginAuthenticator
from .config import ServerConfig
from .exchange import HttpExchange
from .observations import Observations, ToolLabels
from .quotas import Deadlines, Holding, MemoryBudget, Permits, Rates, retry_after
from .refusal_log import RefusalLog

logger = logging.getLogger(__name__)

_ALWAYS_ANSWERED = frozenset({"/health", "/health/live"})
_FAILED = "%s failed (request %s)"
_OUTAGE = f"{_FAILED}: %s"
_COPIES = 3
"""How often a body is in memory at most: as it came, joined, and decoded."""
_SMALL_REPLY = 64 * 1024
"""Replies up to this size are sent even if the memory budget is used up."""


class ServerContext:
    """What all endpoints of a server share."""

    def __init__(
        self,
        services: AppServices,
        authenticator: Authenticator,
        config: ServerConfig,
        statistics: StatisticsKeeper,
    ) -> None:
        limits = config.limits
        self.services = services
        self.authenticator = authenticator
        self.logins = LoginAuthenticator.of(config, authenticator)
        """Asked instead of the authenticator, if the host has its own logins."""
        self.config = config
        self.observations = Observations(ToolLabels(services.engine.registry), statistics)
        self.refusals = RefusalLog(services.clock)
        self.statistics = statistics
        self.requests = Permits("requests", limits.requests, limits.requests_per_caller)
        self.streams = Permits("streams", limits.streams, limits.streams_per_caller)
        self.memory = MemoryBudget(limits.held_bytes)
        self.bodies = Deadlines(limits.body_ms / 1000)
        self.submits = Rates(limits.submits, services.clock)
        self.decisions = Rates(limits.decisions, services.clock)
        self.is_draining = False
        """Whether the server is about to stop and accepts no more requests."""


class Endpoint:
    """Serves one route. Every failure becomes an answer in the route's own format."""

    def __init__(self, route: ApiRoute, context: ServerContext) -> None:
        self.route = route
        self._context = context
        self._is_limited = route.path not in _ALWAYS_ANSWERED
        # Every request of a route that may stream counts against the streams.
        is_stream = route.reply is bytes or route.may_stream
        self._permits = context.streams if is_stream else context.requests
        self._rate = _rate(route, context)
        allowed = context.config.body_bytes
        self._body_bytes = allowed if route.body_bytes is None else min(allowed, route.body_bytes)
        self._aliases = camel_aliases(route.query, route.body) if route.takes_camel else {}
        # With aliases the keys are normalized before the type is checked.
        type_ = Any if self._aliases else route.body
        self._body = None if route.body in (None, bytes) else msgspec.json.Decoder(type_)
        self._exact_body = self._body if type_ is route.body else _exact_decoder(route.body)
        """Decodes the usual bodies, without aliases, in one step; None: there may be others."""

    async def __call__(self, exchange: HttpExchange, receive: Receive) -> None:
        """Answer one request; its permit and its memory are released after the last byte."""
        context = self._context
        try:
            if context.logins is None:
                principal = context.authenticator.admit(
                    exchange.headers, self.route.access, exchange.client
                )
            else:
                principal = await context.logins.admit(exchange, self.route.access)
            for access in self.route.also:
                principal.check(access)
            caller = None if principal is LOCAL else (principal.tenant_id, principal.id)
            if self._is_limited:
                self._admit(caller)
        except HttpError as problem:
            if problem.status == 401 and (url := context.config.login_url) is not None:
                problem.details = {**problem.details, "login_url": url}
                problem.headers += ((b"link", f'<{url}>; rel="login"'.encode()),)
            await self._refusal(problem, exchange)(exchange.scope, receive, exchange.send)
            return
        holding, stream = Holding(context.memory), 0
        try:
            reply = await self._reply(principal, exchange, receive, holding)
            # The decoded body now belongs to the run, or is garbage.
            holding.release()
            if type(reply) is Bytes:
                reply = self._hold_reply(reply, exchange, holding)
            else:
                stream = 1
                context.observations.streams.value += 1
            await reply(exchange.scope, receive, exchange.send)
        finally:
            context.observations.streams.value -= stream
            if holding.size:
                holding.release()
            if self._is_limited:
                self._permits.give_back(caller)

    def _admit(self, caller: Hashable | None) -> None:
        if self._context.is_draining:
            headers = (retry_after(1000), (b"connection", b"close"))
            raise HttpError(503, "server_stopping", "The server is stopping; try again.", headers)
        if self._rate is not None and caller is not None:
            self._rate.check(caller, "You ask too often.")
            self._rate.count(caller)
        self._permits.take(caller)

    def _hold_reply(self, reply: Bytes, exchange: HttpExchange, holding: Holding) -> Bytes:
        """Account for the reply until the client has read it; refuse it if memory is used up."""
        size = len(reply.body)
        # The client must learn of what its request changed.
        if size <= _SMALL_REPLY or self.route.method != "GET":
            holding.take_anyway(size)
            return reply
        try:
            holding.take(size)
        except HttpError as problem:
            return self._refusal(problem, exchange)
        return reply

    async def _reply(
        self, principal: Principal, exchange: HttpExchange, receive: Receive, holding: Holding
    ) -> Reply:
        """Decode the request and call the handler; returns its reply, or the error it raised."""
        try:
            route, context, scope = self.route, self._context, exchange.scope
            if exchange.path:
                for value in exchange.path.values():
                    check_id(value, context.config.limits.id_chars)
            query = self._query(scope) if route.query is not None else None
            headers = exchange.headers
            body = await self._read(headers, receive, holding) if route.body is not None else None
            trace = None
            if "traceparent" in headers:
                trace = trace_of(headers["traceparent"], headers.get("tracestate"))
            call = RouteCall(
                view=context.services.view(principal.tenant_id, principal.id, trace),
                principal=principal,
                path=exchange.path,
                headers=headers,
                query=query,
                body=body,
                scope=scope,
                run_wait_ms=context.config.limits.run_wait_ms,
                request_id=exchange.request_id,
            )
            return await route.handle(call)
        except HttpError as problem:
            return self._refusal(hide_problem_namespace(problem, principal.tenant_id), exchange)
        except AwakenError as error:
            refusal = to_http_error(error)
            outage = error if isinstance(error, StoreUnavailable) else None
            if refusal.status >= 500 and not (outage or isinstance(error, SWITCHED_OFF)):
                logger.exception(_FAILED, self.route.path, exchange.request_id)
            refusal = hide_problem_namespace(refusal, principal.tenant_id)
            return self._refusal(refusal, exchange, outage)
        except BaseException as error:
            if is_interruption(error):
                raise
            logger.exception(_FAILED, self.route.path, exchange.request_id)
            message = "Something went wrong here; the log has more."
            return self._refusal(HttpError(500, "internal_error", message), exchange)

    def _refusal(
        self, problem: HttpError, exchange: HttpExchange, outage: StoreUnavailable | None = None
    ) -> Bytes:
        problem.request_id = exchange.request_id
        is_logged = self._context.refusals.note(problem, self.route.path, exchange.client)
        if is_logged and outage is not None:
            # Of the many that an outage refuses, the logged ones say why, and not where.
            logger.error(_OUTAGE, self.route.path, exchange.request_id, outage)
        return self.route.refuse(problem)

    def _query(self, scope: Scope) -> Any:
        try:
            text = scope["query_string"].decode("ascii")
            # What changes something takes no blank value: it would be as if it was not given.
            is_strict = self.route.method != "GET"
            given = dict(
                parse_qsl(text, keep_blank_values=is_strict, max_num_fields=100, errors="strict")
            )
            named = normalize_keys(given, self._aliases)
            found: Any = msgspec.convert(named, self.route.query, strict=False)
        except (msgspec.ValidationError, ValueError) as error:
            unknown = unknown_field(error, self.route.query)
            code = "invalid_query" if unknown is None else "unknown_field"
            raise HttpError(400, code, f"The query is malformed: {unknown or error}") from error
        if any("\0" in value for value in given.values()):
            raise HttpError(400, "invalid_query", "Texts may not contain the zero character.")
        return found

    async def _read(self, headers: Mapping[str, str], receive: Receive, holding: Holding) -> Any:
        config = self._context.config
        deadlines = self._context.bodies
        data = await body_of(headers, receive, self._body_bytes, holding, deadlines)
        if self.route.is_body_opaque:
            return data
        is_empty = not data and self.route.is_body_optional
        data = b"{}" if is_empty else data
        values = check_document(data, config.limits.body_values)
        holding.take(values * VALUE_BYTES)
        if self._body is None:
            return data
        given = headers.get("content-type", "application/json")
        if given != "application/json" and not is_empty:
            kind = given.partition(";")[0].strip().lower()
            if kind != "application/json" and not kind.endswith("+json"):
                raise HttpError(415, "unsupported_media_type", "Send application/json.")
        if self._exact_body is None:
            return self._decode_aliased(data, self._body)
        try:
            return self._exact_body.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # There are aliases in it, or the other way says what is wrong with it.
            return self._decode_aliased(data, self._body)

    def _decode_aliased(self, data: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
        value = decode_body(data, decoder)
        if not self._aliases:
            return value
        try:
            return msgspec.convert(normalize_keys(value, self._aliases), self.route.body)
        except msgspec.ValidationError as error:
            raise body_error(error, self.route.body) from error


async def body_of(
    headers: Mapping[str, str],
    receive: Receive,
    limit: int,
    holding: Holding,
    deadlines: Deadlines,
) -> bytes:
    """Read the whole body, and account for its memory.

    Raises:
        HttpError: It is too long or comes too slowly, the memory budget is used up, or the client
            disconnected.
    """
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_long(limit)
    parts: list[bytes] = []
    size = 0
    task = deadlines.start()
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise HttpError(400, "disconnected", "The client went away.")
            part = message.get("body", b"")
            size += len(part)
            if size > limit:
                raise _too_long(limit)
            holding.take(_COPIES * len(part))
            if not message.get("more_body"):
                return part if not parts else b"".join((*parts, part))
            parts.append(part)
    except asyncio.CancelledError as error:
        if not deadlines.has_missed(task):
            raise
        task.uncancel()
        raise HttpError(408, "body_too_slow", "The body did not come in time.") from error
    finally:
        deadlines.end(task)


def _exact_decoder(type_: Any) -> msgspec.json.Decoder[Any] | None:
    """A decoder that refuses every key that is not the name of a field; None if it would not."""
    config = getattr(type_, "__struct_config__", None)
    is_exact = config is not None and config.forbid_unknown_fields
    return msgspec.json.Decoder(type_) if is_exact else None


def _too_long(limit: int) -> HttpError:
    return HttpError(413, "body_too_large", f"The body may have {limit} bytes.")


def check_id(value: str, limit: int) -> None:
    """Refuse a text that cannot be an id.

    Raises:
        HttpError: It is too long, or has characters that cannot be printed.
    """
    if len(value) > limit or not value.isprintable():
        message = "An id in the path is too long or cannot be printed."
        raise HttpError(400, "invalid_path", message)


def _rate(route: ApiRoute, context: ServerContext) -> Rates | None:
    if route.access is Access.DECIDE:
        return context.decisions
    return context.submits if route.method == "POST" else None
