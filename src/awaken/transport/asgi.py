"""The ASGI types, and the simplest reply."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from typing import Any, Protocol

import msgspec

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]
Header = tuple[bytes, bytes]

CONNECTION = "awaken.connection"
"""The ASGI extension of `awaken serve`: the `ClientConnection` of the request."""


class ClientConnection(Protocol):
    """What a reply can do with its connection besides sending."""

    def watch_disconnect(self, callback: Callable[[], None]) -> None:
        """Call back when the client disconnects before the reply is whole."""
        ...

    def abort(self) -> None:
        """Drop the connection, and what is buffered for a client that does not read."""
        ...


JSON: Header = (b"content-type", b"application/json")

encode_json = msgspec.json.Encoder(enc_hook=str).encode


class Reply(Protocol):
    """Anything that can answer a request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer it."""
        ...


class Bytes:
    """A reply whose whole body is known."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes = b"", headers: Iterable[Header] = ()) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        length = (b"content-length", str(len(self.body)).encode())
        headers = [length, *self.headers] if self.status not in (204, 304) else [*self.headers]
        start = {"type": "http.response.start", "status": self.status, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": self.body})


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


def as_json(value: Any, status: int = 200, headers: Iterable[Header] = ()) -> Bytes:
    """Answer with a JSON document."""
    return Bytes(status, encode_json(value), (JSON, *headers))
