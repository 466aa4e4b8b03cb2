"""What permission rules do to calls, and what other rules would have done to past ones."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from awaken.contracts.errors import InvalidInput
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import (
    LIMIT_MAX,
    MessageQuery,
    Order,
    RunQuery,
    ThreadQuery,
    at_cursor,
)
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.policy import PastCall, PolicyDiff, PolicyInspector

CALLS_MAX = 10_000
"""How many past calls a comparison over HTTP looks at."""


async def compare_policies(
    inspector: PolicyInspector, old: Any, new: Any, calls: Sequence[PastCall]
) -> PolicyDiff:
    """Compare two sections over calls, without holding the event loop.

    Raises:
        InvalidInput: A section is malformed, or a rule in it cannot be used.
    """
    return await asyncio.to_thread(inspector.compare, old, new, calls)


async def load_calls(store: Store, agent_id: str | None, limit: int | None) -> list[PastCall]:
    """Load the calls that models made, of one agent or of all.

    With a limit: the latest calls of the threads that were used last.
    """
    found: list[PastCall] = []
    async for call in _past_calls(store, agent_id, Order.ASC if limit is None else Order.DESC):
        found.append(call)
        if limit is not None and len(found) >= limit:
            break
    return found


async def check_has_run(store: Store, agent_id: str) -> None:
    """Refuse an agent that never ran: an empty result would mean nothing.

    Raises:
        InvalidInput: The store has no run of it.
    """
    query = RunQuery(limit=LIMIT_MAX)
    while True:
        page = await store.list_runs(query)
        if any(agent_id in (run.agent_id, run.active_agent_id) for run in page.items):
            return
        if page.next_cursor is not None:
            query = at_cursor(query, page.next_cursor)
        else:
            problem = "the store has no run of it; name another one, or leave --agent out"
            raise InvalidInput(what=f"agent '{agent_id}'", problem=problem)


async def _past_calls(store: Store, agent_id: str | None, order: Order) -> AsyncIterator[PastCall]:
    """Every call that models made, thread by thread."""
    offset = 0
    while True:
        query = ThreadQuery(limit=LIMIT_MAX, offset=offset)
        page = await store.list_threads(query)
        for thread in page.items:
            async for call in _calls_on(store, thread, agent_id, order):
                yield call
        offset += len(page.items)
        if not page.has_more:
            return


async def _calls_on(
    store: Store, thread: Thread, agent_id: str | None, order: Order
) -> AsyncIterator[PastCall]:
    seen: int | None = None
    is_meant: dict[str | None, bool] = {None: agent_id is None}
    while True:
        is_forward = order is Order.ASC
        query = MessageQuery(
            limit=LIMIT_MAX,
            order=order,
            after=seen if is_forward else None,
            before=None if is_forward else seen,
        )
        page = await store.list_messages(thread.id, query)
        for record in page.items:
            seen, run_id = record.seq, record.produced_by_run_id
            if not record.message.tool_calls:
                continue
            if run_id not in is_meant:
                is_meant[run_id] = await _is_of(store, run_id, agent_id)
            for call in record.message.tool_calls if is_meant[run_id] else ():
                yield PastCall(
                    thread_id=thread.id,
                    run_id=run_id,
                    call_id=call.id,
                    tool=call.name,
                    arguments=call.arguments,
                )
        if not page.has_more:
            return


async def _is_of(store: Store, run_id: str | None, agent_id: str | None) -> bool:
    if agent_id is None or run_id is None:
        return agent_id is None
    run = await store.load_run(run_id)
    return run is not None and agent_id in (run.agent_id, run.active_agent_id)
