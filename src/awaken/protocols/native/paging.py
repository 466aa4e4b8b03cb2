"""Filters, limits and cursors of queries; a cursor overrides an offset."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from awaken.contracts.lifecycle import ENDS, RunStatus, TicketStatus
from awaken.contracts.record import StrictRecord
from awaken.contracts.runs.records import LISTED_KINDS, RunKind
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.contracts.storage.queries import (
    DEFAULT_LIMIT,
    LIMIT_MAX,
    OFFSET_MAX,
    DispatchQuery,
    MessageQuery,
    Order,
    Page,
    RunQuery,
    ThreadQuery,
    TicketQuery,
    VisibilityFilter,
    at_cursor,
)
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .bodies import Id
from .views import Listed, status_name

S = TypeVar("S")
V = TypeVar("V")
Q = TypeVar("Q", MessageQuery, ThreadQuery, RunQuery, DispatchQuery)

Place = Annotated[int, Meta(ge=0, le=OFFSET_MAX)]
_VISIBILITIES = {
    "external": VisibilityFilter.EXTERNAL,
    "internal": VisibilityFilter.INTERNAL,
    "all": VisibilityFilter.ANY,
    "any": VisibilityFilter.ANY,
}
_RUN_STATUSES = {str(status): status for status in RunStatus}
_TICKET_STATUSES: Mapping[str, TicketStatus | None] = {
    "open": TicketStatus.OPEN,
    "decided": TicketStatus.DECIDED,
    "all": None,
}
_DISPATCH_STATUSES = {status_name(status): status for status in DispatchStatus}


def _one_of(names: Iterable[str]) -> Meta:
    return Meta(extra_json_schema={"enum": list(map(str, names))})


class Paging(StrictRecord, frozen=True, kw_only=True):
    """Where a page begins and how long it is; limits are clamped to 1…200."""

    offset: int = 0
    cursor: str | None = None
    limit: int = DEFAULT_LIMIT
    total: bool = False
    """Whether to count what is on all pages."""


class ThreadFilter(Paging, frozen=True, kw_only=True):
    """Threads of an owner, children of a thread, or threads without a parent."""

    resource_id: Id | None = None
    parent_thread_id: Id | None = None
    root: bool = False
    demo: bool = False
    """Whether to list threads of the demo data too; children of a thread are listed anyway."""


class ThreadSearch(StrictRecord, frozen=True, kw_only=True):
    """Threads by a text in their title, id, owner or custom fields, or forks of a thread."""

    q: Annotated[str, Meta(max_length=256)] | None = None
    forked_from: Id | None = None
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = DEFAULT_LIMIT


class MessageFilter(Paging, frozen=True, kw_only=True):
    """Messages between two positions in the thread, exclusive, in either order."""

    after: Place | None = None
    before: Place | None = None
    order: Annotated[str, _one_of(Order)] = "asc"
    visibility: Annotated[str, _one_of(_VISIBILITIES)] = "external"
    run_id: Id | None = None


class RunFilter(Paging, frozen=True, kw_only=True):
    """Runs by status, agent, time of creation, kind, end and publication; all filters together.

    A page may have fewer runs than its limit although `has_more` is true.
    """

    status: Annotated[str, _one_of(_RUN_STATUSES)] | None = None
    order: Annotated[str, _one_of(Order)] = "asc"
    """`desc` lists the newest run first."""
    agent_id: Id | None = None
    since: Place | None = None
    """The earliest time of creation, in milliseconds."""
    until: Place | None = None
    """The time before which the runs were created, in milliseconds."""
    kind: str | None = None
    """One kind or several with commas between them, or `any`; otherwise chats and tasks."""
    ended: Annotated[str, _one_of(ENDS)] | None = None
    """The type of the termination."""
    publication: Place | None = None
    q: Id | None = None
    """How the id of the run or of its thread begins."""


class AnyRunFilter(RunFilter, frozen=True, kw_only=True):
    """Runs on any thread or on one."""

    thread_id: Id | None = None
    is_workflow: bool = False
    """Whether to list runs of workflows only; a page of them is not counted."""


class DispatchFilter(Paging, frozen=True, kw_only=True):
    """Deliveries of a status."""

    status: Annotated[str, _one_of(_DISPATCH_STATUSES)] | None = None


class TicketFilter(StrictRecord, frozen=True, kw_only=True):
    """Tickets of a status by creation time: the open ones oldest first, others newest first."""

    status: Annotated[str, _one_of(_TICKET_STATUSES)] = "open"
    """`all` also lists those that were closed without a decision."""
    order: Annotated[str, _one_of(Order)] | None = None
    offset: Place = 0
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = DEFAULT_LIMIT
    total: bool = False
    """Whether to count what is on all pages."""
    demo: bool = False
    """Whether to list tickets of the demo data too; those of a thread or run are listed anyway."""


class LogPaging(StrictRecord, frozen=True, kw_only=True):
    """A page of the log after a position."""

    cursor: Place | None = None
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = DEFAULT_LIMIT


class AttachQuery(StrictRecord, frozen=True, kw_only=True):
    """Where in the log a stream begins."""

    cursor: Place | None = None


class StateQuery(StrictRecord, frozen=True, kw_only=True):
    """A step of a run; absent: the latest. 0 is the beginning of the run."""

    step: Annotated[int, Meta(ge=0, le=10**9)] | None = None


def thread_query(call: RouteCall) -> ThreadQuery:
    """The query for the requested threads."""
    given: ThreadFilter = call.query
    if given.root and given.parent_thread_id is not None:
        message = "root=true cannot be combined with parentThreadId"
        raise HttpError(400, "invalid_query", message)
    query = ThreadQuery(
        tenant_id=call.view.tenant_id,
        resource_id=given.resource_id,
        parent_id=given.parent_thread_id,
        roots_only=given.root,
    )
    return _apply_paging(query, given)


def message_query(given: MessageFilter) -> MessageQuery:
    """The query for the requested messages."""
    if given.order not in tuple(Order):
        raise HttpError(400, "invalid_query", "order must be asc or desc")
    if given.visibility not in _VISIBILITIES:
        raise HttpError(400, "invalid_query", "visibility must be external, internal or all")
    query = MessageQuery(
        after=given.after,
        before=given.before,
        order=Order(given.order),
        visibility=_VISIBILITIES[given.visibility],
        run_id=given.run_id,
    )
    return _apply_paging(query, given)


def run_query(call: RouteCall, thread_id: str | None) -> RunQuery:
    """The query for the requested runs."""
    given: RunFilter = call.query
    if given.order not in tuple(Order):
        raise HttpError(400, "invalid_query", "order must be asc or desc")
    if given.ended is not None and given.ended not in ENDS:
        message = f"ended must be one of {', '.join(ENDS)}"
        raise HttpError(400, "invalid_query", message)
    query = RunQuery(
        tenant_id=call.view.tenant_id,
        thread_id=thread_id,
        status=_status(given.status, _RUN_STATUSES),
        order=Order(given.order),
        agent_id=given.agent_id,
        since=given.since,
        until=given.until,
        kinds=_kinds(given.kind),
        ended=given.ended,
        publication=given.publication,
        q=given.q,
        with_total=given.total,
    )
    return _apply_paging(query, given)


def ticket_query(
    given: TicketFilter, thread_id: str | None = None, run_id: str | None = None
) -> TicketQuery:
    """The query for the requested page of tickets."""
    if given.order not in (None, *Order):
        raise HttpError(400, "invalid_query", "order must be asc or desc")
    cursor, offset = given.cursor, given.offset
    if cursor is not None and cursor.isascii() and cursor.isdigit():
        # The cursors of earlier versions were offsets.
        offset = min(int(cursor[:20]), OFFSET_MAX)
        cursor = None
    usual = Order.ASC if given.status == "open" else Order.DESC
    query = TicketQuery(
        thread_id=thread_id,
        run_id=run_id,
        status=_status(given.status, _TICKET_STATUSES),
        order=usual if given.order is None else Order(given.order),
        offset=offset,
        limit=given.limit,
        with_total=given.total,
    )
    return query if cursor is None else at_cursor(query, cursor)


def dispatch_query(given: DispatchFilter, thread_id: str) -> DispatchQuery:
    """The query for the requested deliveries."""
    status = _status(given.status, _DISPATCH_STATUSES)
    return _apply_paging(DispatchQuery(thread_id=thread_id, status=status), given)


def build_page(page: Page[S], view: Callable[[S], V], given: Paging | TicketFilter) -> Listed[V]:
    """Build the page that the client gets."""
    return Listed(
        items=tuple(map(view, page.items)),
        has_more=page.has_more,
        next_cursor=page.next_cursor,
        total=page.total if given.total and page.total is not None else msgspec.UNSET,
    )


def _apply_paging(query: Q, given: Paging) -> Q:
    paged = msgspec.structs.replace(query, offset=given.offset, limit=given.limit)
    return paged if given.cursor is None else at_cursor(paged, given.cursor)


def _kinds(names: str | None) -> tuple[RunKind, ...]:
    if names is None:
        return LISTED_KINDS
    if names == "any":
        return ()
    try:
        return tuple(dict.fromkeys(RunKind(name.strip()) for name in names.split(",")))
    except ValueError as error:
        message = f"kind must be any, or some of {', '.join(RunKind)}"
        raise HttpError(400, "invalid_query", message) from error


def _status(name: str | None, known: Mapping[str, S]) -> S | None:
    if name is not None and name not in known:
        raise HttpError(400, "invalid_query", f"invalid status filter: {name}")
    return None if name is None else known[name]
