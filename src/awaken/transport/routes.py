"""Routes as data: path, required scope, types of the request and the reply.

The server builds its router, its access checks and its OpenAPI document from them.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.errors import CursorInvalid
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume
from awaken.services.view import AppServices, TenantView

from .asgi import Bytes, Reply, Scope
from .problems import HttpError, native_refusal


class Access(StrEnum):
    """What a caller must be allowed to do.

    `OPEN` routes need no authentication. `KNOWN` routes accept every caller that has a scope: the
    operation is in the body, and the route checks the scope for it.
    """

    OPEN = "open"
    KNOWN = "known"
    READ = "read"
    INVOKE = "invoke"
    DECIDE = "decide"
    CONFIG = "config"
    PUBLISH = "publish"
    OPERATE = "operate"
    EVAL = "eval"
    ADMIN = "admin"


SCOPES = frozenset(Access) - {Access.OPEN, Access.KNOWN}
"""The scopes that a token can have."""
ADMIN_CONTAINS = frozenset(
    {Access.READ, Access.CONFIG, Access.PUBLISH, Access.OPERATE, Access.EVAL}
)
"""The scopes that `admin` contains; it neither starts runs nor decides."""
DEPLOYMENT_SCOPES = frozenset(
    {Access.CONFIG, Access.PUBLISH, Access.OPERATE, Access.EVAL, Access.ADMIN}
)
"""The scopes for what all tenants share; a caller with a tenant may not use them."""

ACTOR_CHARS = 64
"""How long the name in the header `X-Awaken-Actor` may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller, its scopes and its tenant; a caller without a tenant sees everything."""

    id: str
    access: frozenset[Access]
    tenant_id: str | None = None

    def may(self, access: Access) -> bool:
        """Whether the caller has the scope for that; see `ADMIN_CONTAINS`."""
        match access:
            case Access.OPEN:
                return True
            case Access.KNOWN:
                return bool(self.access)
            case _:
                is_contained = access in ADMIN_CONTAINS and Access.ADMIN in self.access
                return is_contained or access in self.access

    def check(self, access: Access) -> None:
        """Refuse the caller unless it has the scope, and no tenant if the scope allows none.

        Raises:
            HttpError: 403, with the scope that it lacks.
        """
        if not self.may(access):
            challenge = (b"www-authenticate", b'Bearer error="insufficient_scope"')
            message = f"This needs the scope '{access.value}'."
            raise HttpError(403, "forbidden", message, (challenge,))
        if self.tenant_id is not None and access in DEPLOYMENT_SCOPES:
            message = "Configuration is the deployment's: use a token without a tenant."
            raise HttpError(403, "forbidden", message)


@dataclass(slots=True)
class RouteCall:
    """One request, checked and decoded."""

    view: TenantView
    principal: Principal
    path: Mapping[str, str]
    headers: Mapping[str, str]
    """Keyed by lower-case name."""
    query: Any = None
    """As the route's `query` type."""
    body: Any = None
    """As the route's `body` type."""
    scope: Scope = field(default_factory=dict)
    run_wait_ms: int = 0
    """How long a reply may wait for a run to end."""
    request_id: str = ""

    @property
    def base_url(self) -> str:
        """The server's URL as the client sees it, without a trailing slash."""
        scope, host = self.scope, self.headers.get("host", "localhost")
        return f"{scope.get('scheme', 'http')}://{host}{scope.get('root_path', '')}"

    @property
    def client(self) -> str | None:
        """The address that the caller calls from, if it has one."""
        client = self.scope.get("client")
        return client[0] if client else None

    @property
    def actor(self) -> str:
        """The caller for the audit: its id, and behind a slash the person that it acts for.

        The person is what the header `X-Awaken-Actor` says. It is not verified.
        """
        label = self.headers.get("x-awaken-actor", "").strip()
        is_usable = len(label) <= ACTOR_CHARS and label.isascii() and label.isprintable()
        return f"{self.principal.id}/{label}" if label and is_usable else self.principal.id

    def require(self, access: Access) -> None:
        """Refuse a caller without the scope; for routes that know the scope only from the body.

        Raises:
            HttpError: The caller lacks the scope.
        """
        if not self.principal.may(access):
            raise HttpError(403, "forbidden", f"This needs the scope '{access.value}'.")

    async def audit(self, action: AuditAction, resource: str, **details: Any) -> None:
        """Record what the caller is about to do; without an audit nothing is recorded.

        Raises:
            StorageError: It could not be recorded; the route must not act.
        """
        if (trail := self.view.audit) is not None:
            await trail.record(
                action,
                resource,
                actor=self.actor,
                details=details or None,
                ip=self.client,
                request_id=self.request_id or None,
            )

    def check_may_answer(
        self, tickets: Iterable[Ticket], decisions: Iterable[ToolCallResume]
    ) -> None:
        """Refuse answers that grant a permission if the caller may not decide.

        A caller with the scope `invoke` may send the results of its own tools. An answer that is
        to be remembered needs `decide`, whatever the ticket asks.

        Raises:
            HttpError: The caller lacks the scope.
        """
        is_lasting = any(it.remember is not None for it in decisions)
        if is_lasting or not all(it.is_question for it in tickets):
            self.require(Access.DECIDE)

    def cursor(self, asked: str | int | None = None, branch: str = "") -> int | None:
        """The cursor that the client names, else the id of the latest event that it received.

        A cursor in the log of a branch ends with `@` and the branch's id, if the client knows the
        branch by the id of its chat.

        Raises:
            CursorInvalid: It is not a position in a log.
            HttpError: It is a position in another branch.
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
    also: tuple[Access, ...] = ()
    """Further scopes that the caller needs besides `access`."""
    query: type | None = None
    body: Any = None
    """The type of the JSON body; None: no body, `bytes`: the body as it came."""
    body_bytes: int | None = None
    """How long the body may be, if that is less than the server allows."""
    is_body_opaque: bool = False
    """Whether `bytes` are passed on unread: a signature covers them, and is judged first."""
    is_body_optional: bool = False
    """Whether no body is as good as an empty object."""
    reply: Any = None
    """The type of the JSON reply, for the OpenAPI document; `bytes` is an event stream."""
    media_type: str = "application/json"
    """What the reply is, unless it is an event stream."""
    document: Any = None
    """The type of the JSON reply for clients that ask for JSON instead of the stream."""
    status: int = 200
    statuses: Mapping[int, Any] = field(default_factory=dict)
    """Further success statuses, with the type of each reply."""
    may_stream: bool = False
    """Whether some requests get an event stream although the reply is a document."""
    tag: str = ""
    headers: Sequence[str] = ()
    """Request headers that the route reads, for the OpenAPI document."""
    takes_camel: bool = False
    """Whether fields of the query and the body may also be spelled in camelCase."""
    refuse: Callable[[HttpError], Bytes] = field(default=native_refusal)


def make_route(
    access: Access,
    operation: str,
    handle: Callable[[RouteCall], Awaitable[Reply]],
    reply: Any = None,
    **rest: Any,
) -> ApiRoute:
    """Make a route of a method and a path; its summary is the first line of its function.

    Unless a tag is given, it is the part of the path behind the version.
    """
    method, path = operation.split()
    summary = (handle.__doc__ or "").partition("\n")[0]
    rest.setdefault("tag", path.split("/")[2])
    return ApiRoute(
        method=method,
        path=path,
        handle=handle,
        access=access,
        summary=summary,
        reply=reply,
        **rest,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WireProtocol:
    """A protocol that the server speaks: its routes, and its background work."""

    name: str
    routes: Sequence[ApiRoute]
    lifespan: Callable[[AppServices], AbstractAsyncContextManager[None]] | None = None
    """Entered when the server starts and left when it stops."""
