"""Who asks: what a request may see and do, and what lasts between two requests of a client."""

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
"""Where a request's ASGI scope says who sent it."""


@dataclass(slots=True)
class OpenCall:
    """A tool call that is being answered."""

    run_id: str | None = None
    """Its run, once there is one."""
    is_cancelled: bool = False
    """The client wants it no more."""


@dataclass(slots=True)
class Link:
    """One client's session, or its pipe."""

    calls: dict[str, OpenCall] = field(default_factory=dict)
    """By request id. A call whose answering was cut off stays, for a note may still come."""
    log_level: LoggingLevel = "info"

    def opened(self, request_id: str) -> OpenCall:
        """A new call; of very many, notes about the oldest count no more."""
        if len(self.calls) >= _CALLS_MAX:
            del self.calls[next(iter(self.calls))]
        call = self.calls[request_id] = OpenCall()
        return call


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request, checked by the server; a link for each request is one for none."""

    view: TenantView
    access: frozenset[Access]
    link: Link

    async def run(self, run_id: str) -> RunRecord:
        """A run that began over MCP; those who may read get any other as well.

        Raises:
            UnknownRun: There is none for the caller.
        """
        record = await self.view.run(run_id)
        if record.adapter is not Adapter.MCP and Access.READ not in self.access:
            raise UnknownRun(run_id=run_id)
        return record


def caller_of(ctx: Context) -> Caller:
    """Who sent the request; over a pipe it is always the same."""
    caller: Caller = ctx.lifespan_context if ctx.request is None else ctx.request.scope[SCOPE_KEY]
    return caller


def is_stateless(ctx: Context) -> bool:
    """Whether the request is of the era in which servers cannot ask back."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
