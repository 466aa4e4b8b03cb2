"""One request and its reply, with the headers that every reply has."""

from collections.abc import Awaitable, Mapping
from typing import Any

from awaken.transport.asgi import Header, Message, Scope, Send
from awaken.transport.problems import HttpError

from .config import ServerLimits

_NOSNIFF: Header = (b"x-content-type-options", b"nosniff")
_NO_STORE: Header = (b"cache-control", b"no-store")
_NOTHING: dict[str, Any] = {}
_ID_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class HttpExchange:
    """A request that is being served; also sends the reply."""

    __slots__ = (
        "_extra", "_send", "client", "headers", "method", "path", "request_id", "scope", "status",
        "url_path",
    )  # fmt: skip

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self.scope = scope
        """Empty when the reply has begun."""
        self.method: str = scope["method"]
        self.url_path: str = scope["path"]
        self.request_id = request_id
        self.headers: Mapping[str, str] = _NOTHING
        """Keyed by lower-case name; set when they were checked, empty when the reply has begun."""
        self.path: dict[str, str] = _NOTHING
        """The parameters in the path."""
        client = scope.get("client")
        self.client: str = client[0] if client else ""
        self.status = 500
        self._send = send
        self._extra: tuple[Header, ...] = (_NOSNIFF, (b"x-request-id", request_id.encode()))

    def send(self, message: Message) -> Awaitable[None]:
        """Send a part of the reply."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), *self._extra]
            if b"cache-control" not in dict(headers):
                headers.append(_NO_STORE)
            message["headers"] = headers
            # A stream may be open for hours: nothing of the request is kept.
            self._extra, self.scope, self.headers = (), _NOTHING, _NOTHING
        return self._send(message)

    def allow_origin(self, origin: str) -> None:
        """Allow pages of an origin to read the reply."""
        self._extra += (
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", b"*"),
            (b"vary", b"origin"),
        )


def request_id_of(scope: Scope) -> str | None:
    """The id that the client gave its request, if it is safe to log and to send."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text: str = value.decode("latin-1")
            return text if 0 < len(text) <= 128 and _ID_CHARS.issuperset(text) else None
    return None


def headers_of(scope: Scope, limits: ServerLimits | None = None) -> dict[str, str]:
    """The headers by lower-case name; of repeated ones the last.

    Raises:
        HttpError: There are too many, they are too long, or `Authorization` is repeated.
    """
    pairs, headers, size = scope["headers"], {}, 0
    for name, value in pairs:
        size += len(name) + len(value)
        headers[name.decode("latin-1")] = value.decode("latin-1")
    if limits is not None and (len(pairs) > limits.header_count or size > limits.header_bytes):
        raise HttpError(431, "headers_too_large", "The headers are too many or too long.")
    if len(headers) < len(pairs) and sum(name == b"authorization" for name, _ in pairs) > 1:
        challenge = ((b"www-authenticate", b"Bearer"),)
        raise HttpError(401, "unauthorized", "invalid Authorization header", challenge)
    return headers
