"""Requests to an ASGI app without a socket, so that a test sees what the app reads and sends."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from awaken import Access, RedactedString
from awaken.server import ServerConfig, TokenSpec
from awaken.transport.routes import SCOPES

EVERYTHING = SCOPES
PATIENCE_S = 10


@dataclass
class Answer:
    """What came back."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    has_read_body: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return self.json["error"]


class Request:
    """One request on its way; a stream is read until it is left."""

    def __init__(self, app: Any, method: str, path: str, **options: Any) -> None:
        self.answer = Answer()
        self.started = asyncio.Event()
        self.got_body = asyncio.Event()
        self._left = asyncio.Event()
        self._body = _body(options.get("body"))
        headers = {"host": "127.0.0.1", **(options.get("headers") or {})}
        pairs = [
            (name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()
        ]
        path, _, query = path.partition("?")
        client = options.get("client", "127.0.0.1")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [*pairs, *options.get("more_headers", ())],
            "client": (client, 1234) if client else None,
            "scheme": "http",
            "root_path": options.get("root_path", ""),
        }
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def leave(self) -> Answer:
        """Go away, and wait until the app has noticed."""
        self._left.set()
        await asyncio.wait_for(self.task, PATIENCE_S)
        return self.answer

    async def begun(self) -> Answer:
        """Wait for the status."""
        waiting = asyncio.create_task(self.started.wait())
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait({waiting, self.task}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self.task.done():
            self.task.result()
        return self.answer

    async def _receive(self) -> Any:
        if not self.answer.has_read_body:
            self.answer.has_read_body = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.answer.status = message["status"]
            for name, value in message["headers"]:
                self.answer.headers[name.decode()] = value.decode("latin-1")
            self.started.set()
        else:
            self.answer.body += message.get("body", b"")
            self.got_body.set()


async def ask(app: Any, method: str, path: str, **options: Any) -> Answer:
    """The whole answer; of an event stream, what comes up to its first frames."""
    request = Request(app, method, path, **options)
    answer = await request.begun()
    if "event-stream" in answer.headers.get("content-type", ""):
        first = asyncio.create_task(request.got_body.wait())
        await asyncio.wait({first, request.task}, timeout=0.2, return_when="FIRST_COMPLETED")
        first.cancel()
        return await request.leave()
    await asyncio.wait_for(request.task, PATIENCE_S)
    return answer


def token(id_: str, access: frozenset[Access] = EVERYTHING, **options: Any) -> TokenSpec:
    """A token whose text is its id and a tail."""
    return TokenSpec(id=id_, access=access, token=RedactedString(f"{id_}-token"), **options)


def bearer(id_: str) -> dict[str, str]:
    """The header that shows it."""
    return {"authorization": f"Bearer {id_}-token"}


def config(*tokens: TokenSpec, **options: Any) -> ServerConfig:
    """A server that knows these tokens."""
    return ServerConfig(tokens=tokens, **options)


def _body(body: Any) -> bytes:
    if body is None or isinstance(body, bytes):
        return body or b""
    return json.dumps(body).encode()
