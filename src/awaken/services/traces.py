"""Runs as traces: the log of one run in pages by offset."""

from awaken.contracts.events import LoggedEvent
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.queries import LIMIT_MAX, Order, RunQuery, at_cursor

from .view import TenantView

EVENTS_MAX = 1_000
"""How many events a page has at most."""


class TraceFilter(Record, frozen=True, kw_only=True):
    """Runs of an agent that were created since a time, in milliseconds."""

    agent_id: str | None = None
    since: int | None = None
    limit: int = 100


class TracePage(Record, frozen=True, kw_only=True):
    """Events of a run; `total` counts all that the log still has."""

    events: tuple[LoggedEvent, ...]
    total: int


async def list_traces(view: TenantView, wanted: TraceFilter) -> tuple[RunRecord, ...]:
    """List runs, newest first."""
    found: list[RunRecord] = []
    query = RunQuery(
        agent_id=wanted.agent_id, since=wanted.since, order=Order.DESC, limit=LIMIT_MAX
    )
    while len(found) < wanted.limit:
        page = await view.runs(query)
        found.extend(page.items)
        if page.next_cursor is None:
            break
        query = at_cursor(query, page.next_cursor)
    return tuple(found[: wanted.limit])


async def read_trace(view: TenantView, run_id: str, offset: int, limit: int) -> TracePage:
    """Read a page of a run's events; only that page is kept in memory.

    Raises:
        UnknownRun: There is none, or it belongs to another tenant.
    """
    total, after, page = 0, 0, list[LoggedEvent]()
    while events := await view.run_events(run_id, after, EVENTS_MAX):
        for event in events:
            if offset <= total < offset + limit:
                page.append(event)
            total += 1
        after = events[-1].seq
        if len(events) < EVENTS_MAX:
            break
    return TracePage(events=tuple(page), total=total)
