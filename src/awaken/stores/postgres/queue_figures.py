"""How much waits in the queue, as operators and autoscalers see it."""

from collections.abc import Mapping

from awaken.contracts.storage.nodes import (
    QUEUE_COUNT_MAX,
    QueueFigures,
    WaitingLane,
    sum_lanes,
)
from awaken.stores.sql.session import SqlSession

from .texts import STATEMENTS

_FREE = "turn_at IS NOT NULL AND claim_token IS NULL"
_AGENT = "COALESCE(head_agent, '')"
_HEAD = "no, head_priority, head_no, due_at, COALESCE(tenant_id, '') AS lane"
# What a free slot could take: the heads of threads. What stands behind a head, or behind a run of
# its own thread, starts on no slot. What waits until later is stepped over, by an index.
_DUE = f"""
WITH RECURSIVE later_agents (agent) AS (
    (SELECT {_AGENT} FROM threads WHERE {_FREE} AND due_at > 0 ORDER BY {_AGENT} LIMIT 1)
    UNION ALL SELECT next.agent FROM later_agents, LATERAL (
        SELECT {_AGENT} AS agent FROM threads
        WHERE {_FREE} AND due_at > 0 AND {_AGENT} > later_agents.agent
        ORDER BY {_AGENT} LIMIT 1) AS next
),
heads AS (
    (SELECT {_HEAD} FROM threads WHERE {_FREE} AND due_at = 0 LIMIT {QUEUE_COUNT_MAX})
    UNION ALL
    SELECT head.* FROM later_agents, LATERAL (
        SELECT {_HEAD} FROM threads
        WHERE {_FREE} AND due_at > 0 AND {_AGENT} = later_agents.agent AND due_at <= $1
        ORDER BY due_at LIMIT {QUEUE_COUNT_MAX}) AS head
)
SELECT CASE WHEN $2::boolean THEN lane ELSE '' END, count(*),
    min(greatest(heads.due_at, d.created_at))
FROM heads LEFT JOIN dispatches d ON d.thread_no = heads.no AND d.status = 'queued'
    AND d.priority = heads.head_priority AND d.no = heads.head_no
GROUP BY 1
"""
_DELAYED = (
    "SELECT CASE WHEN $2::boolean THEN COALESCE(t.tenant_id, '') ELSE '' END, count(*)"
    " FROM (SELECT thread_no, available_at FROM dispatches WHERE status = 'queued'"
    f" LIMIT {QUEUE_COUNT_MAX}) AS queued JOIN threads t ON t.no = queued.thread_no"
    " WHERE available_at > $1 GROUP BY 1"
)
STATEMENTS.update(
    {
        "queue_due": _DUE.strip(),
        "queue_delayed": _DELAYED,
        "queue_dead_letters": (
            "SELECT count(*) FROM (SELECT 1 FROM dispatches WHERE status = 'dead_letter'"
            f" LIMIT {QUEUE_COUNT_MAX}) AS dead"
        ),
    }
)


async def read_queue(session: SqlSession, now: int, max_busy: Mapping[str, int]) -> QueueFigures:
    """Count what is due, delayed and dead; by tenant if some are limited."""
    by_tenant = bool(max_busy)
    busy = dict(map(tuple, await session.all("count_busy"))) if by_tenant else {}
    delayed = dict(map(tuple, await session.all("queue_delayed", now, by_tenant)))
    due = {row[0]: row for row in await session.all("queue_due", now, by_tenant)}
    lanes = [
        WaitingLane(
            tenant_id=lane,
            due=due[lane][1] if lane in due else 0,
            due_since=due[lane][2] if lane in due else None,
            delayed=delayed.get(lane, 0),
            busy=busy.get(lane, 0),
        )
        for lane in due | delayed
    ]
    dead = await session.one("queue_dead_letters")
    assert dead is not None
    return sum_lanes(lanes, max_busy, now, dead[0])
