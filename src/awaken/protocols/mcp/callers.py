"""The caller of a request: its view and scopes, and the state between a client's requests."""

from dataclasses import dataclass, field
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types import LoggingLevel
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from awaken.contracts.errors import UnknownRun
from awaken.contracts.identity import Adapter
from awaken.contracts.runs.records import RunRecord
from awaken.services.view import TenantView
from awaken.transport.routes import Access

Context = ServerRequestContext[Any, Any]

_CALLS_MAX = 1000
SCOPE_KEY = "awaken.mcp.caller"
"""The key of the caller in a request's ASGI scope."""


@dataclass(slots=True)
class OpenCall:
    """A tool call that is being answered."""

    run_id: str | None = None
    """Its run, once there is one."""
    is_cancelled: bool = False
    """The client has cancelled it."""


@dataclass(slots=True)
class Link:
    """One client's session, or its stdio connection."""

    calls: dict[str, OpenCall] = field(default_factory=dict)
    """By request id. An interrupted call stays, because its cancel may still come."""
    log_level: LoggingLevel = "info"

    def open_call(self, request_id: str) -> OpenCall:
        """Add a call; if there are too many, the oldest can no longer be cancelled."""
        if len(self.calls) >= _CALLS_MAX:
            del self.calls[next(iter(self.calls))]
        call = self.calls[request_id] = OpenCall()
        return call


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller of a request; a stateless request has a link of its own."""

    view: TenantView
    access: frozenset[Access]
    link: Link
    context: dict[str, Any] | None = None
    """The context of runs whose call brings none."""

    async def run(self, run_id: str) -> RunRecord:
        """Load a run that began over MCP; callers with the scope `read` get any run.

        Raises:
            UnknownRun: The caller can see no such run.
        """
        record = await self.view.run(run_id)
        if record.adapter is not Adapter.MCP and Access.READ not in self.access:
            raise UnknownRun(run_id=run_id)
        return record


def caller_of(ctx: Context) -> Caller:
    """The caller of a request; over stdio it is always the same."""
    caller: Caller = ctx.lifespan_context if ctx.request is None else ctx.request.scope[SCOPE_KEY]
    return caller


def is_stateless(ctx: Context) -> bool:
    """Whether the request is stateless, so that the server cannot send requests to the client."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
