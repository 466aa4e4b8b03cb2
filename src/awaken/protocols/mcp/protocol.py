"""The routes of MCP; they work before the SDK is loaded.

The server checks the origin and the caller of a request, as for every route.
"""

import asyncio
import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from awaken.contracts.record import StrictRecord
from awaken.services.view import AppServices
from awaken.transport.asgi import Bytes, Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import Access, ApiRoute, RouteCall, WireProtocol

MISSING_EXTRA = "MCP needs the extra `mcp`: pip install 'awaken[mcp]'"
_INVALID_REQUEST = -32600
_INTERNAL_ERROR = -32603


class McpSettings(StrictRecord, frozen=True, kw_only=True):
    """Limits of an MCP server; all times are milliseconds."""

    max_sessions: int = 1000
    """How many clients may have a session at once."""
    max_sessions_each: int = 200
    """How many of them may belong to the same caller."""
    idle_ms: int = 30 * 60 * 1000
    """After how long without a request a session ends."""
    patience_ms: int = 1000
    """After how long a call is answered with a task, if the client takes tasks."""


def mcp_protocol(settings: McpSettings | None = None) -> WireProtocol:
    """Build MCP over HTTP, for one server."""
    endpoint = McpEndpoint(settings or McpSettings())
    summaries = {
        "POST": "Send an MCP message.",
        "GET": "Listen to the messages of a session besides answers.",
        "DELETE": "End a session.",
    }
    routes = [
        ApiRoute(
            method=method,
            path="/v1/mcp",
            handle=endpoint.answer,
            access=Access.INVOKE,
            summary=summary,
            body=bytes if method == "POST" else None,
            reply=bytes,
            statuses={202: None} if method == "POST" else {},
            tag="mcp",
            refuse=refuse,
        )
        for method, summary in summaries.items()
    ]
    return WireProtocol(name="mcp", routes=routes, lifespan=endpoint.open)


class McpEndpoint:
    """Loads the SDK at the first request, and closes its sessions with the server."""

    def __init__(self, settings: McpSettings) -> None:
        self._settings = settings
        self._loading = asyncio.Lock()
        self.host: Any = None

    async def answer(self, call: RouteCall) -> Reply:
        """Answer any request.

        Raises:
            HttpError: 501 without the extra.
        """
        async with self._loading:
            if self.host is None:
                try:
                    # The import takes a second and must not block other requests.
                    module = await asyncio.to_thread(importlib.import_module, f"{__package__}.http")
                except ModuleNotFoundError as error:
                    raise HttpError(501, "missing_extra", MISSING_EXTRA) from error
                self.host = module.HttpHost(self._settings)
        reply: Reply = await self.host.reply(call)
        return reply

    @asynccontextmanager
    async def open(self, _services: AppServices) -> AsyncIterator[None]:
        """Serve until the server stops."""
        try:
            yield
        finally:
            host, self.host = self.host, None
            if host is not None:
                await host.close()


def refuse(problem: HttpError) -> Bytes:
    """Encode an error for MCP."""
    code = _INTERNAL_ERROR if problem.status >= 500 else _INVALID_REQUEST
    error = {"code": code, "message": problem.message, "data": {"code": problem.code}}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return as_json(body, problem.status, problem.headers)
