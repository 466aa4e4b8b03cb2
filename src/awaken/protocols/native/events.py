"""The event log over HTTP: in pages, and as streams from any cursor."""

from itertools import takewhile

from awaken.contracts.events import LoggedEvent
from awaken.contracts.messages.sizes import value_bytes
from awaken.contracts.storage.queries import PageRoom
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import RouteCall
from awaken.transport.sse import EventStreamReply

from .paging import LogPaging
from .runs import NATIVE
from .views import Listed


async def thread_events(call: RouteCall) -> Reply:
    """Read a thread's log, page by page."""
    given: LogPaging = call.query
    after = given.cursor or 0
    found = await call.view.events(call.path["thread_id"], after, given.limit + 1)
    return _page(found, given)


async def run_events(call: RouteCall) -> Reply:
    """Read a run's part of the log, page by page."""
    given: LogPaging = call.query
    after = given.cursor or 0
    found = await call.view.run_events(call.path["run_id"], after, given.limit + 1)
    return _page(found, given)


async def stream_thread(call: RouteCall) -> Reply:
    """Stream a thread from a cursor, or from now on."""
    stream = await call.view.follow_thread(call.path["thread_id"], call.cursor(call.query.cursor))
    return EventStreamReply(stream, NATIVE)


async def stream_run(call: RouteCall) -> Reply:
    """Stream a run from a cursor, or from its start, up to its end or suspension."""
    stream = await call.view.follow_run(call.path["run_id"], call.cursor(call.query.cursor))
    return EventStreamReply(stream, NATIVE)


def _page(found: tuple[LoggedEvent, ...], given: LogPaging) -> Reply:
    """Build a page with the requested number of events, or as many as fit."""
    room = PageRoom()
    items = tuple(takewhile(lambda it: room.takes(value_bytes(it)), found[: given.limit]))
    place = items[-1].seq if items else given.cursor or 0
    page = Listed(items=items, has_more=len(found) > len(items), next_cursor=str(place))
    return as_json(page)
