"""Listing: filters, limits and opaque cursors, the same for every store."""

import base64
import binascii
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec

from awaken.contracts.errors import CursorInvalid
from awaken.contracts.identity import normalize_id
from awaken.contracts.lifecycle import RunStatus, TicketStatus
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunKind

from .dispatch import DispatchStatus

T = TypeVar("T")

DEFAULT_LIMIT = 50
LIMIT_MAX = 200
PAGE_BYTES = 4 * 1024 * 1024
"""The maximum size of a page's items; the rest is on the next page."""
OFFSET_MAX = 2**53 - 1
"""The largest offset that is accepted, because cursors come back from clients."""


class Order(StrEnum):
    """Direction of a listing."""

    ASC = "asc"
    DESC = "desc"


class VisibilityFilter(StrEnum):
    """Which messages to list."""

    ANY = "any"
    EXTERNAL = "external"
    INTERNAL = "internal"


class _Listing(Record, frozen=True, kw_only=True):
    offset: int = 0
    limit: int = DEFAULT_LIMIT

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "limit", min(max(self.limit, 1), LIMIT_MAX))
        msgspec.structs.force_setattr(self, "offset", min(max(self.offset, 0), OFFSET_MAX))


class MessageQuery(_Listing, frozen=True, kw_only=True, tag_field="query", tag="messages"):
    """Messages of one thread; `after` and `before` exclude the sequence number they name."""

    after: int | None = None
    before: int | None = None
    order: Order = Order.ASC
    visibility: VisibilityFilter = VisibilityFilter.ANY
    run_id: str | None = None


class ThreadQuery(_Listing, frozen=True, kw_only=True, tag_field="query", tag="threads"):
    """Threads by tenant, owner or parent; `roots_only` keeps those without a parent."""

    tenant_id: str | None = None
    resource_id: str | None = None
    parent_id: str | None = None
    roots_only: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tenant_id", "resource_id", "parent_id"):
            msgspec.structs.force_setattr(self, name, normalize_id(getattr(self, name)))


ListKey = tuple[int, str]
"""The place of a row in a listing by keys: its creation time, then its id."""


class _Keyset(_Listing, frozen=True, kw_only=True):
    """A listing whose cursors name a row, so that rows added meanwhile shift no page.

    An offset still works and skips rows one by one.
    """

    order: Order = Order.ASC
    after: ListKey | None = None
    """Begin with the row that follows this key in the listing's order."""
    before: ListKey | None = None
    """End with the row that precedes this key in the listing's order."""
    with_total: bool = False
    """Whether to count the rows of all pages, which reads all of them."""
    tenant_id: str | None = None
    """The tenant that owns the threads."""
    thread_id: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        msgspec.structs.force_setattr(self, "tenant_id", normalize_id(self.tenant_id))


class RunQuery(_Keyset, frozen=True, kw_only=True, tag_field="query", tag="runs"):
    """Runs by creation time. A page may be short although another one follows."""

    status: RunStatus | None = None
    agent_id: str | None = None
    since: int | None = None
    """Only runs created at this time or later."""
    until: int | None = None
    """Only runs created before this time."""
    kinds: tuple[RunKind, ...] = ()
    """Only runs of these kinds; empty means any."""
    ended: str | None = None
    """Only runs that ended this way: the type of their termination, such as `natural_end`."""
    publication: int | None = None
    q: str | None = None
    """Only runs whose id, or whose thread's id, begins with this text."""


class TicketQuery(_Keyset, frozen=True, kw_only=True, tag_field="query", tag="tickets"):
    """Tickets of a status by creation time. A page may be short although another one follows."""

    run_id: str | None = None
    status: TicketStatus | None = TicketStatus.OPEN
    """None means any status; tickets that ended without a decision are closed."""


class DispatchQuery(_Listing, frozen=True, kw_only=True, tag_field="query", tag="dispatches"):
    """Dispatches by thread, status and dedupe key."""

    thread_id: str | None = None
    status: DispatchStatus | None = None
    dedupe_key: str | None = None
    """Keys belong to a thread: without `thread_id` none matches."""


class ScheduleQuery(_Keyset, frozen=True, kw_only=True, tag_field="query", tag="schedules"):
    """Schedules by creation time."""

    status: str | None = None
    agent_id: str | None = None


class TriggerQuery(_Keyset, frozen=True, kw_only=True, tag_field="query", tag="triggers"):
    """Webhook triggers by creation time."""

    agent_id: str | None = None


class FiringQuery(_Keyset, frozen=True, kw_only=True, tag_field="query", tag="firings"):
    """The firings of one schedule by their due times."""

    schedule_id: str
    outcome: str | None = None


class DeliveryQuery(_Keyset, frozen=True, kw_only=True, tag_field="query", tag="deliveries"):
    """The deliveries to one trigger by when they were received."""

    trigger_id: str
    outcome: str | None = None


KeysetQuery = RunQuery | TicketQuery | ScheduleQuery | TriggerQuery | FiringQuery | DeliveryQuery
AnyQuery = MessageQuery | ThreadQuery | DispatchQuery | KeysetQuery
Q = TypeVar(
    "Q",
    MessageQuery,
    ThreadQuery,
    RunQuery,
    DispatchQuery,
    TicketQuery,
    ScheduleQuery,
    TriggerQuery,
    FiringQuery,
    DeliveryQuery,
)
K = TypeVar("K", RunQuery, TicketQuery, ScheduleQuery, TriggerQuery, FiringQuery, DeliveryQuery)


class Page(Record, Generic[T], frozen=True, kw_only=True):
    """One page of a listing, with cursors to its neighbours where they exist."""

    items: tuple[T, ...]
    total: int | None
    """How many rows all pages have; None if the query did not ask for it."""
    next_cursor: str | None = None
    prev_cursor: str | None = None
    damaged: int = 0
    """How many records of the page are left out because they cannot be read."""

    @property
    def has_more(self) -> bool:
        """Whether another page follows."""
        return self.next_cursor is not None


class PageRoom:
    """The remaining size of a page: the first item always fits, others while there is room."""

    __slots__ = ("_is_empty", "_left")

    def __init__(self, limit: int = PAGE_BYTES) -> None:
        self._left = limit
        self._is_empty = True

    def takes(self, size: int) -> bool:
        """Whether the next item fits; after the first one that does not, the page is full."""
        if size > self._left and not self._is_empty:
            self._left = -1
            return False
        self._left -= size
        self._is_empty = False
        return True


def page_of(items: tuple[T, ...], total: int, query: AnyQuery, *, damaged: int = 0) -> Page[T]:
    """Wrap the items found at the query's offset, where some more are left out as damaged."""
    end = query.offset + len(items) + damaged
    return Page(
        items=items,
        total=total,
        next_cursor=_encode_cursor(query, end) if end < total else None,
        prev_cursor=_encode_cursor(query, max(query.offset - query.limit, 0))
        if query.offset
        else None,
        damaged=damaged,
    )


def at_cursor(query: Q, cursor: str) -> Q:
    """Return the query moved to the cursor's page.

    Raises:
        CursorInvalid: The cursor is malformed or was made for other filters.
    """
    made_for = decode_cursor(cursor)
    place: dict[str, Any] = {"offset": made_for.offset}
    wanted: AnyQuery = query
    if isinstance(made_for, KeysetQuery) and type(made_for) is type(query):
        place |= {"after": made_for.after, "before": made_for.before}
        # A client may count the rows with one page only.
        made_for = msgspec.structs.replace(made_for, with_total=query.with_total)
    moved = msgspec.structs.replace(wanted, **place)
    if moved != made_for:
        raise CursorInvalid(problem="it belongs to a query with other filters")
    return msgspec.structs.replace(query, **place)


def decode_cursor(cursor: str) -> AnyQuery:
    """Return the query that a cursor stands for.

    Raises:
        CursorInvalid: The cursor is malformed.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        data = base64.b64decode(padded.encode(), altchars=b"-_", validate=True)
        made_for: AnyQuery = msgspec.json.decode(data, type=AnyQuery)
    except (ValueError, binascii.Error, msgspec.MsgspecError, RecursionError) as error:
        raise CursorInvalid(problem="it is malformed") from error
    return made_for


def encode_cursor(query: AnyQuery) -> str:
    """Return the cursor for a query that is at its place."""
    token = msgspec.json.encode(query)
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _encode_cursor(query: AnyQuery, offset: int) -> str:
    return encode_cursor(msgspec.structs.replace(query, offset=offset))
