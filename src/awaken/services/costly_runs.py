"""The most expensive of the latest ended runs.

The store keeps no index by cost: it would be written with every run, for a list that is rarely
read. A list looks at a bounded number of runs instead, and says at how many.
"""

import heapq

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.record import Record
from awaken.contracts.runs.records import LISTED_KINDS, RunRecord
from awaken.contracts.storage.queries import LIMIT_MAX, Order, RunQuery, at_cursor

from .view import TenantView

LOOKED_AT_MAX = 1_000
"""How many runs one list looks at, the latest first."""
_PAGES_MAX = 10
"""How many pages it reads: a page may be short, because the store looks at a bounded number too."""


class CostlyRun(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What an ended run has used; times in milliseconds."""

    run_id: str
    thread_id: str
    agent_id: str
    created_at: int
    finished_at: int | None
    steps: int
    input_tokens: int
    output_tokens: int
    cost_nanos: int | None
    """Billionths of a US dollar; None if no price is known."""


class CostlyRuns(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Runs by cost, then by tokens, the highest first."""

    items: tuple[CostlyRun, ...]
    looked_at: int
    """How many ended runs they were chosen from: the latest of the period, 1,000 at most."""
    is_complete: bool
    """Whether these are all ended chats and tasks of the period."""


async def list_costly_runs(view: TenantView, since: int, until: int, limit: int) -> CostlyRuns:
    """Return the most expensive of the latest runs that began in a period and have ended."""
    query = RunQuery(
        status=RunStatus.DONE,
        since=since,
        until=until + 1,
        kinds=LISTED_KINDS,
        order=Order.DESC,
        limit=LIMIT_MAX,
    )
    best: list[RunRecord] = []
    looked_at = 0
    for _ in range(_PAGES_MAX):
        page = await view.runs(query)
        looked_at += len(page.items)
        best = heapq.nlargest(limit, (*best, *page.items), key=_rank)
        if page.next_cursor is None or looked_at >= LOOKED_AT_MAX:
            break
        query = at_cursor(query, page.next_cursor)
    items = tuple(_show(it) for it in best)
    return CostlyRuns(items=items, looked_at=looked_at, is_complete=page.next_cursor is None)


def _rank(run: RunRecord) -> tuple[int, int, str]:
    return run.usage.cost_nanos or 0, run.usage.total_tokens or 0, run.run_id


def _show(run: RunRecord) -> CostlyRun:
    return CostlyRun(
        run_id=run.run_id,
        thread_id=run.thread_id,
        agent_id=run.agent_id,
        created_at=run.created_at,
        finished_at=run.finished_at,
        steps=run.steps,
        input_tokens=run.usage.prompt_tokens or 0,
        output_tokens=run.usage.completion_tokens or 0,
        cost_nanos=run.usage.cost_nanos,
    )
