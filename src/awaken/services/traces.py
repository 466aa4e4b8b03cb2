"""Runs as traces: the log of one run in pages by offset."""

from awaken.contracts.events import LoggedEvent
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.queries import LIMIT_MAX, RunQuery

from .view import TenantView

EVENTS_MAX = 1_000
"""How many events a page has at most."""
SCAN_MAX = 5_000
"""How many runs a list looks at: a filter may match few of them."""


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
    """List runs, newest first; looks at the newest `SCAN_MAX` at most."""
    found: list[RunRecord] = []
    # The store lists the oldest first: pages are read from the end.
    end = (await view.runs(RunQuery(limit=1))).total
    first = max(0, end - SCAN_MAX)
    while end > first and len(found) < wanted.limit:
        begin = max(first, end - LIMIT_MAX)
        page = await view.runs(RunQuery(offset=begin, limit=end - begin))
        for run in reversed(page.items):
            is_meant = wanted.agent_id in (None, run.agent_id, run.active_agent_id)
            if is_meant and (wanted.since is None or run.created_at >= wanted.since):
                found.append(run)
        end = begin
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
