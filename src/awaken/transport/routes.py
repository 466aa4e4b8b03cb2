"""Routes as data: where, who may, what comes in and what goes out.

The server makes its router, its checks of every caller and its OpenAPI document from them.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from awaken.contracts.errors import CursorInvalid
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume
from awaken.services.view import AppServices, TenantView

from .asgi import Bytes, Reply, Scope
from .problems import HttpError, native_refusal


class Access(StrEnum):
    """What a caller must be allowed to do.

    `OPEN` routes ask nobody. `KNOWN` ones take every caller that has a scope, because what it asks
    for is in the body; they check that themselves.
    """

    OPEN = "open"
    KNOWN = "known"
    READ = "read"
    INVOKE = "invoke"
    DECIDE = "decide"
    ADMIN = "admin"


SCOPES = frozenset({Access.READ, Access.INVOKE, Access.DECIDE, Access.ADMIN})
"""What callers are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who calls, what it may do, and for whom; without a tenant it sees everything."""

    id: str
    access: frozenset[Access]
    tenant_id: str | None = None

    def may(self, access: Access) -> bool:
        """Whether it has a scope for that; whoever administers may also read."""
        match access:
            case Access.OPEN:
                return True
            case Access.KNOWN:
                return bool(self.access)
            case Access.READ:
                return bool(self.access & {Access.READ, Access.ADMIN})
            case _:
                return access in self.access


@dataclass(slots=True)
class RouteCall:
    """One request, checked and decoded."""

    view: TenantView
    principal: Principal
    path: Mapping[str, str]
    headers: Mapping[str, str]
    """By lower-case name."""
    query: Any = None
    """As the route's `query` type."""
    body: Any = None
    """As the route's `body` type."""
    base_url: str = ""
    """Where the client sees the server, without a slash at the end."""
    scope: Scope = field(default_factory=dict)
    run_wait_ms: int = 0
    """How long a reply may wait for a run to end."""

    def require(self, access: Access) -> None:
        """Refuse a caller that may not do that, where the route could not tell.

        Raises:
            Problem: The caller lacks the scope.
        """
        if not self.principal.may(access):
            raise HttpError(403, "forbidden", f"This needs the scope '{access.value}'.")

    def check_may_answer(
        self, tickets: Iterable[Ticket], decisions: Iterable[ToolCallResume]
    ) -> None:
        """Refuse answers that are permissions of a caller that may not decide.

        Whoever invokes an agent also gives the results of its own tools. An answer that is to be
        remembered is more than a result, whatever was asked.

        Raises:
            Problem: The caller lacks the scope.
        """
        is_lasting = any(it.remember is not None for it in decisions)
        if is_lasting or not all(it.is_question for it in tickets):
            self.require(Access.DECIDE)

    def cursor(self, asked: str | int | None = None, branch: str = "") -> int | None:
        """Where a client goes on: the cursor it asks for, else the latest id that it got.

        A place in the log of a branch ends with `@` and the branch, where clients know it by the
        name of their chat.

        Raises:
            CursorInvalid: It is no place in a log.
            Problem: It is a place in another branch.
        """
        given = str(asked if asked is not None else self.headers.get("last-event-id", "")).strip()
        if not given:
            return None
        given, _, named = given.partition("@")
        if named != branch:
            message = "The chat goes on with another branch; load its messages again."
            raise HttpError(410, "other_branch", message)
        if not (given.isascii() and given.isdecimal() and len(given) < 19):
            raise CursorInvalid(problem="it is no place in a log")
        return int(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute:
    """One operation of a protocol."""

    method: str
    path: str
    """With parameters as `{name}`."""
    handle: Callable[[RouteCall], Awaitable[Reply]]
    access: Access
    summary: str
    query: type | None = None
    body: Any = None
    """The type of the JSON body; None takes none, `bytes` takes it undecoded."""
    reply: Any = None
    """The type of the JSON reply, for the document; `bytes` is an event stream."""
    document: Any = None
    """The type of the JSON reply that clients get instead of the stream if they ask for one."""
    status: int = 200
    statuses: Mapping[int, Any] = field(default_factory=dict)
    """What else it answers when all is well, with the type of each reply."""
    may_stream: bool = False
    """Whether it answers some with an event stream although its reply is a document."""
    tag: str = ""
    headers: Sequence[str] = ()
    """Request headers that it heeds, for the document."""
    takes_camel: bool = False
    """Whether the fields of its query and body may also be spelled in camelCase."""
    refuse: Callable[[HttpError], Bytes] = field(default=native_refusal)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireProtocol:
    """A protocol that the server speaks: its routes, and what runs beside them."""

    name: str
    routes: Sequence[ApiRoute]
    lifespan: Callable[[AppServices], AbstractAsyncContextManager[None]] | None = None
    """Entered when the server starts and left when it stops."""
